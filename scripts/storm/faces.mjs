// One client of each face, behind one way to call a tool.
//
// `call()` settles as the face's own call does. `heard`: the verdict of the `call` event by tag, where the face has
// one; it is all that is known of a call whose framework has given it up by its own timer.
import { TAG } from './gate.mjs';
import { SPEED } from './time.mjs';

const INFO = { name: 'storm', version: '1.0.0' };

/** Connects; rejects where that is not possible just now, and nothing is left then. */
export async function openFace(lib, { face, setting }, { url, options, heard }) {
  const made = makeFace(lib, { face, setting }, { url, options, heard });
  try {
    await made.connect();
    return made;
  } catch (error) {
    await made.close();
    throw error;
  }
}

function makeFace(lib, plan, scene) {
  if (plan.face === 'hosted-client') return hostedClient(lib, scene);
  if (plan.face === 'fetch') return overFetch(lib, plan.setting, scene);
  return overTransport(lib, plan, scene);
}

function hostedClient({ HostedClient }, { url, options }) {
  const client = new HostedClient(INFO, { url, ...options });
  // Then it listens.
  client.fallbackNotificationHandler = async () => {};
  return {
    connection: client.connection,
    connect: () => client.connect(),
    call: (name, tag, args, { timeoutMs, signal }) =>
      client.callTool({ name, arguments: args, _meta: { [TAG]: tag } }, undefined, {
        timeout: timeoutMs,
        signal,
      }),
    close: () => client.close(),
  };
}

/** A stock Client, whose own timer runs in the world's time. */
function stockClient(lib, kind, { era }) {
  const isV1 = kind === 'v1';
  const modern = { versionNegotiation: { mode: { pin: '2026-07-28' } } };
  const client = isV1 ? new lib.ClientV1(INFO) : new lib.ClientV2(INFO, era === 'stateless' ? modern : {});
  client.onerror = () => {};
  return {
    client,
    call(name, tag, args, { timeoutMs, signal }) {
      const params = { name, arguments: args, _meta: { [TAG]: tag } };
      const options = { timeout: Math.ceil(timeoutMs / SPEED), signal };
      return isV1 ? client.callTool(params, undefined, options) : client.callTool(params, options);
    },
  };
}

function overTransport(lib, { face, setting }, { url, options, heard }) {
  const { client, call } = stockClient(lib, face, setting);
  const transport = new lib.HostedTransport(url, options);
  const tags = new Map();
  const send = transport.send.bind(transport);
  transport.send = (message, how) => {
    const tag = message?.params?._meta?.[TAG];
    if (tag !== undefined) tags.set(message.id, tag);
    return send(message, how);
  };
  transport.connection.on('call', ({ requestId, executed, code }) => {
    const tag = tags.get(requestId);
    tags.delete(requestId);
    if (tag !== undefined) heard.set(tag, { executed, code });
  });
  return {
    connection: transport.connection,
    connect: () => client.connect(transport),
    call,
    async close() {
      await transport.terminateSession().catch(() => {});
      await client.close();
      await transport.close();
    },
  };
}

function overFetch(lib, setting, { url, options }) {
  const { client, call } = stockClient(lib, setting.framework, setting);
  const fetch = lib.hostedFetch(url, options);
  const Transport = setting.framework === 'v1' ? lib.FetchTransportV1 : lib.FetchTransportV2;
  return {
    connection: fetch.connection,
    connect: () => client.connect(new Transport(new URL(url), { fetch })),
    call,
    // First the one who can tell the callers what became of their calls.
    async close() {
      await fetch.close();
      await client.close();
    },
  };
}
