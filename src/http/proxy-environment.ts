/**
 * The proxies that the environment names.
 *
 * Guarantees the same reading for every road out of this library. Never used for loopback: plain http there is
 * safe only because it stays on this machine.
 */

/** Lower case first, as curl and undici have it. `host:port` without a scheme is what curl takes, and many write. */
export function proxiesOfEnvironment(): { httpProxy?: string; httpsProxy?: string } {
  const found: { httpProxy?: string; httpsProxy?: string } = {};
  const http = proxyVariable('http_proxy');
  const https = proxyVariable('https_proxy');
  if (http !== undefined) found.httpProxy = http;
  if (https !== undefined) found.httpsProxy = https;
  return found;
}

function proxyVariable(name: string): string | undefined {
  const value = (process.env[name] ?? process.env[name.toUpperCase()])?.trim();
  if (value === undefined || value === '') return undefined;
  return value.includes('://') ? value : `http://${value}`;
}
