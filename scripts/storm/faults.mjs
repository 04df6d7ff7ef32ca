// Every fault that the simulator knows, as data that a seed draws and a person can read.
//
// They are laid on the way of one call alone: each caller has a tool of its own. For those that befall everybody see
// world-faults.mjs.
import { between, pick } from './random.mjs';

export const SHAPES = ['fin', 'eof', 'reset'];
const PAGES = [502, 503, 504];
export const HTML = { 'content-type': 'text/html' };
const PLAIN = { 'content-type': 'text/plain' };
export const page = (status) =>
  `<html><head><title>${status}</title></head><body><h1>${status}</h1></body></html>`;
const run = { tool: 'run' };

/** The caller's time where nothing would ever come. */
const SILENT_MS = 3_000;

const own = (request, error) => ({ jsonrpc: '2.0', id: request.message.id, error });
const eventOf = (message, id) =>
  `${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(message)}\n\n`;

/** `reply`: what the simulator does with the call. `call`: what is different about the call itself. */
export const OF_A_CALL = [
  {
    kind: 'cut before it ran',
    weight: 3,
    draw: (r) => ({ shape: pick(r, SHAPES), ...(r() < 0.4 && { afterBytes: between(r, 0, 40) }) }),
    reply: ({ shape, afterBytes }) => ({ cut: shape, afterBytes }),
  },
  {
    kind: 'cut before the head after it ran',
    weight: 2,
    draw: (r) => ({ shape: pick(r, SHAPES) }),
    reply: ({ shape }) => ({ ...run, cut: shape }),
  },
  {
    kind: 'cut in the body',
    weight: 3,
    draw: (r) => ({ shape: pick(r, SHAPES), afterBytes: between(r, 0, 60) }),
    reply: ({ shape, afterBytes }) => ({ ...run, cut: shape, afterBytes }),
  },
  {
    kind: 'reset after the body',
    draw: (r) => ({ shape: pick(r, ['fin', 'reset']) }),
    reply: ({ shape }) => ({ ...run, cut: shape, afterBytes: 1e9 }),
  },
  {
    kind: 'page of a gateway (not run)',
    weight: 2,
    draw: (r) => ({ status: pick(r, PAGES), ...(r() < 0.3 && { retryAfter: '1' }) }),
    reply: ({ status, retryAfter }) => ({
      status,
      headers: { ...HTML, ...(retryAfter !== undefined && { 'retry-after': retryAfter }) },
      body: page(status),
    }),
  },
  {
    kind: 'page of a gateway (run)',
    weight: 2,
    draw: (r) => ({ status: pick(r, [500, ...PAGES]) }),
    reply: ({ status }) => ({ ...run, status, headers: HTML, body: page(status) }),
  },
  {
    kind: 'refused with 400 or 404 or 500',
    draw: (r) => ({ status: pick(r, [400, 404, 500]), body: pick(r, ['', 'no', 'Session expired']) }),
    reply: ({ status, body }) => ({ status, headers: PLAIN, body }),
  },
  {
    kind: 'refused unread (405 or 413 or 415)',
    draw: (r) => ({ status: pick(r, [405, 413, 415]) }),
    reply: ({ status }) => ({ status, headers: PLAIN, body: 'no' }),
  },
  {
    kind: 'challenged (401)',
    voidsTokens: true,
    draw: () => ({}),
    reply: () => ({ status: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } }),
  },
  {
    kind: '401 or 403 without a challenge',
    draw: (r) => ({ status: pick(r, [401, 403]) }),
    reply: ({ status }) => ({ status, headers: PLAIN, body: 'no' }),
  },
  {
    kind: 'limited (429)',
    draw: (r) => ({ inBand: r() < 0.5 }),
    reply: ({ inBand }) => ({
      status: 429,
      headers: inBand ? { 'retry-after': '1' } : { ...PLAIN, 'retry-after': '1' },
      body: inBand
        ? (request) => own(request, { code: -32023, message: 'slow down', data: { retryAfterMs: 300 } })
        : 'slow down',
    }),
  },
  {
    kind: 'error status in its name after it ran',
    draw: (r) => ({ status: pick(r, [401, 403, 429, 500]) }),
    reply: ({ status }) => ({
      ...run,
      status,
      body: (request) => own(request, { code: 4242, message: 'an upstream refused' }),
    }),
  },
  {
    kind: 'redirected (307)',
    draw: () => ({}),
    reply: () => ({ status: 307, headers: { location: '/mcp' } }),
  },
  {
    kind: 'silence (not run)',
    draw: () => ({}),
    reply: () => ({ silence: true }),
    call: () => ({ timeoutMs: SILENT_MS }),
  },
  {
    kind: 'silence (run)',
    draw: () => ({}),
    reply: () => ({ ...run, silence: true }),
    call: () => ({ timeoutMs: SILENT_MS }),
  },
  {
    kind: 'slow head',
    weight: 2,
    draw: (r) => ({ ms: between(r, 500, 5_000), timeoutMs: r() < 0.3 ? 1_500 : 10_000 }),
    call: ({ ms, timeoutMs }) => ({ args: { ms }, timeoutMs }),
  },
  {
    kind: 'duplicated events',
    weight: 2,
    draw: (r) => ({ form: pick(r, ['twice', 'same id', 'foreign first', 'byte by byte', 'noise']) }),
    reply: ({ form }) => ({ ...run, chunks: (request) => eventsOf(request, form) }),
  },
  {
    kind: 'stream ends in its event',
    draw: (r) => ({ keep: between(r, 1, 60) }),
    reply: ({ keep }) => ({ ...run, chunks: ({ answer }) => [eventOf(answer ?? {}).slice(0, keep)] }),
  },
  {
    kind: 'garbled answer',
    draw: (r) => ({ form: pick(r, ['broken', 'empty', 'taken', 'foreign', 'html']) }),
    reply: ({ form }) => ({ ...run, ...garbled(form) }),
  },
  {
    kind: "the server's own error",
    draw: (r) => ({ fail: pick(r, ['error', 'isError']) }),
    call: ({ fail }) => ({ args: { fail } }),
    everywhere: true,
  },
  {
    kind: 'answer too large',
    draw: () => ({}),
    call: () => ({ args: { bytes: 200_000 } }),
    everywhere: true,
  },
  { kind: 'denied by a gate', draw: () => ({}), call: () => ({ args: { deny: true } }), everywhere: true },
  {
    kind: 'result refused by a gate',
    draw: () => ({}),
    call: () => ({ args: { refuse: true } }),
    everywhere: true,
  },
  {
    kind: 'given up by the caller',
    weight: 2,
    draw: (r) => ({ afterMs: between(r, 0, 600), ms: between(r, 0, 600) }),
    call: ({ afterMs, ms }) => ({ args: { ms }, abortAfterMs: afterMs }),
    everywhere: true,
  },
  {
    kind: "the caller's time is short",
    weight: 2,
    draw: (r) => ({ timeoutMs: between(r, 20, 900), ms: between(r, 0, 900) }),
    call: ({ timeoutMs, ms }) => ({ args: { ms }, timeoutMs }),
    everywhere: true,
  },
];

function eventsOf({ answer = {} }, form) {
  const message = eventOf(answer);
  switch (form) {
    case 'twice':
      return [message, message];
    case 'same id':
      return [eventOf(answer, 'e1'), eventOf(answer, 'e1')];
    case 'foreign first':
      return [eventOf({ ...answer, id: 'nobody' }), message];
    case 'byte by byte':
      return [...`${message.slice(0, 24)}`, message.slice(24)];
    default:
      return [': noise\n\nevent: odd\ndata: {}\n\n', message, 'data: not json\n\n'];
  }
}

function garbled(form) {
  switch (form) {
    case 'broken':
      return { status: 200, headers: { 'content-type': 'application/json' }, body: '{"jsonrpc":"2.0","id":' };
    case 'empty':
      return { status: 200, headers: { 'content-type': 'application/json' }, body: '' };
    case 'taken':
      return { status: 202, body: '' };
    case 'foreign':
      return { status: 200, body: ({ answer }) => ({ ...answer, id: 'nobody' }) };
    default:
      return { status: 200, headers: HTML, body: page(200) };
  }
}
