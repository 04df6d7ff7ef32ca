export { HostedMcpError } from './errors.js';
