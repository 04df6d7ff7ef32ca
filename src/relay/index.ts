/**
 * `mcp-holdfast/relay`: servers that cannot be dialed, supervised where they run and called from where the model is.
 */
export { errorAnswer } from './carried.js';
export { type RelayHopOptions, relayHop } from './hop.js';
export type { RelaySend, RelaySendOptions } from './messages.js';
export { type ServerStub, toStub } from './stub.js';
export { type SupervisedServer, type SuperviseOptions, superviseServer } from './supervise.js';
export type { SupervisorEvents } from './supervisor.js';
export { type RelayTransport, type RelayTransportOptions, relayTransport } from './transport.js';
