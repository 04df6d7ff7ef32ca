// What a soak has shown: the table, and the claims it must bear out.
import { OURS } from './lane.mjs';

/** Claims, each with whether it holds. Only our own lanes are judged; the stock client's are the control. */
export function judge(rows, { limitMs, durationMs }) {
  const ours = rows.filter(({ client }) => client === OURS);
  const streams = ours.filter(({ server }) => !isLegacy(server));
  const listening = streams.filter(({ server }) => !isLongest(server));
  const legacy = ours.filter(({ server }) => isLegacy(server));
  const of = (name) => ours.filter(({ server }) => server === name);
  const most = (list, figure) => Math.max(0, ...list.map(figure));
  const sum = (list, figure) => list.reduce((total, row) => total + figure(row), 0);
  const getsAllowed = Math.floor(durationMs / limitMs) + 1;
  const gets = most(listening, ({ gets }) => gets);
  const conflicts = sum(listening, ({ conflicts }) => conflicts);
  const cuts = sum(listening, ({ cuts }) => cuts);
  const twice = sum(ours, ({ runTwice }) => runTwice);
  const heard = most(listening, ({ heardMs }) => Math.max(0, ...heardMs));
  const nginxMedians = listening
    .filter(({ proxy }) => proxy === 'nginx')
    .map(({ heardMs }) => median(heardMs));
  const without = of('no store');
  const truthful = ({ long }) =>
    long?.ok === false && long.code === 'ERR_OUTCOME_UNKNOWN' && long.run === 1 && long.sinceCutMs <= 1_000;
  const answered = ({ long }) => long?.ok === true && long.run === 1;
  const known = ({ long }) => long?.run === 1 && (long.ok || long.executed === 'unknown');
  const claim = (text, holds, found) => ({ text, holds, found });
  return [
    claim('every lane ran', ours.every(isWhole), problems(ours)),
    claim(
      'calls after gaps failed, streamable: 0',
      streams.every(({ failed }) => failed === 0),
      `${sum(streams, ({ failed }) => failed)} of ${sum(streams, ({ calls }) => calls)}`,
    ),
    claim(
      'calls after gaps failed, legacy: 0, none on a session without a handshake',
      legacy.length > 0 && legacy.every((row) => isWhole(row) && row.failed + row.uninitialized === 0),
      `${sum(legacy, ({ failed }) => failed)} of ${sum(legacy, ({ calls }) => calls)}`,
    ),
    claim(
      'notifications lost: 0',
      listening.every(({ sent, received }) => sent > 0 && received === sent),
      `${sum(listening, (row) => row.sent - row.received)} of ${sum(listening, ({ sent }) => sent)}`,
    ),
    claim(
      'blind time behind nginx, median: at most 50 ms',
      nginxMedians.every((ms) => ms <= 50),
      `${nginxMedians.join(', ')} ms`,
    ),
    claim('blind time, largest: at most 300 ms', heard <= 300, `${heard} ms`),
    claim(
      'long call without a cursor: the truth within 1 s of the cut, run once',
      without.length > 0 && without.every(truthful),
      without.map(longText).join('; '),
    ),
    claim(
      'long call with an event store: answered, run once',
      of('event store').every(answered),
      of('event store').map(longText).join('; '),
    ),
    claim(
      'call of 3.5 limits with an event store: answered, run once',
      streams.filter(({ server }) => isLongest(server)).every(answered),
      streams
        .filter(({ server }) => isLongest(server))
        .map(longText)
        .join('; '),
    ),
    claim(
      'long call, legacy: answered or truthfully unknown, run once',
      legacy.every(known),
      legacy.map(longText).join('; '),
    ),
    claim(`GETs, the call of 3.5 limits aside: at most ${getsAllowed}`, gets <= getsAllowed, `${gets}`),
    claim(
      '409s, the call of 3.5 limits aside: at most 1 in 50 cuts',
      conflicts <= Math.ceil(cuts / 50),
      `${conflicts} in ${cuts}`,
    ),
    claim('POSTs run twice: 0', twice === 0, `${twice}`),
  ];
}

export function table(rows) {
  const head = [
    'proxy',
    'server',
    'client',
    'calls after gaps failed',
    'long call',
    'run twice',
    'notifications',
    'GETs',
    '409s',
    'cuts',
    'blind at the server, median / max ms',
    'at the client, median / max ms',
    'errors told',
  ];
  const cells = rows.map((row) => [
    row.proxy,
    row.server,
    row.client,
    row.calls === 0 ? '-' : `${row.failed}/${row.calls}${uninitialized(row)}`,
    longText(row),
    row.runTwice,
    row.sent === 0 ? '-' : `${row.received}/${row.sent}`,
    row.gets,
    row.conflicts,
    row.cuts,
    spread(row.blindMs),
    row.client === OURS ? spread(row.heardMs) : '-',
    row.told,
  ]);
  const line = (list) => `| ${list.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...cells.map(line)].join('\n');
}

export function page({ rows, claims, versions, memory, options, date, priority }) {
  const { limitMs, durationMs } = options;
  const seconds = limitMs / 1000;
  const thinks = Math.round((seconds * 74) / 60);
  return `# Ten minutes behind real proxies

${date}: limits of ${seconds} s, ${durationMs / 60_000} minutes, everything at the same time on one machine${rank(priority)}.
\`npm run soak\` makes this page.

${versions.map(([name, version]) => `${name} ${version}`).join(' · ')}

Each lane has its own server (the SDK's own, its keep-alive off), its own proxy (nginx or HAProxy, both as shipped,
every idle limit ${seconds} s) and one client: the SDK's stock client or mcp-holdfast. The agent calls, thinks for ${thinks} s and
calls again; its fourth call takes ${thinks} s without a byte, with a timeout of ${Math.round((seconds * 94) / 60)} s. Notifications are sent ${seconds + 0.5} s
apart: each meets the moment in which the stock client has no stream. A quiet server says something only twice, half
a second after the third and the sixth cut. Behind a legacy server every other pause is ${seconds + 2.5} s: that is while the
stock client has no session.

${table(rows)}

"Long call": what the caller was told, after how long, how often the tool ran and, where the answer was lost, how long
after the (first) cut the caller knew. "Run twice": calls whose tool ran more than once. "Blind at the server": from the
end of one listen stream to the beginning of the next, as the server sees it; "at the client": from the cut to the head
of the new stream (HAProxy holds small writes back by some 210 ms). "Errors told": to \`onerror\`.

Heap of the whole process (all servers, both clients) after a collection: ${memory}.

## What it must show

${claims.map(({ text, holds, found }) => `- ${holds ? 'holds' : '**fails**'}: ${text} (${found})`).join('\n')}
`;
}

export function median(values) {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}

function spread(values) {
  return values.length === 0 ? '-' : `${median(values)} / ${Math.max(...values)}`;
}

function rank(priority) {
  return priority === 0 ? '' : ` that had other work, too (this at priority ${priority})`;
}

function isLegacy(server) {
  return server.startsWith('legacy');
}

function isLongest(server) {
  return server.includes('limits');
}

function isWhole({ problem }) {
  return problem === undefined;
}

function problems(rows) {
  const list = rows
    .filter((row) => !isWhole(row))
    .map((row) => `${row.proxy}, ${row.server}: ${row.problem}`);
  return list.length === 0 ? `${rows.length}` : list.join('; ');
}

function uninitialized({ uninitialized: calls }) {
  return calls === 0 ? '' : `, ${calls} without a handshake`;
}

function longText({ long, problem }) {
  if (problem !== undefined) return `did not run: ${problem}`;
  if (long === undefined) return '-';
  const { ok, code, ms, run, sinceCutMs } = long;
  const after = sinceCutMs === undefined ? '' : `, ${sinceCutMs} ms after the cut`;
  return `${ok ? 'answered' : code} at ${(ms / 1000).toFixed(1)} s${after}, run ${run}x`;
}
