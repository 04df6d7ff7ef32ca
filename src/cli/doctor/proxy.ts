/**
 * Which proxy leads to an address, as the library itself would go.
 *
 * Guarantees the same reading of HTTP_PROXY, HTTPS_PROXY and NO_PROXY as the requests have, and that no
 * proxy's user and password are shown. Never used for loopback where the environment names one.
 */
import { isLoopbackHost } from '../../http/address.js';
import type { ResolvedHttpOptions } from '../../http/options.js';
import { proxiesOfEnvironment } from '../../http/proxy-environment.js';

export interface ProxyUse {
  readonly proxy?: URL;
  /** Why there is none, where one is named. */
  readonly reason: string;
}

/** A variable that is no address gives `{ proxy: undefined, reason }` as well: the request will say so. */
export function proxyFor(
  url: URL,
  option: ResolvedHttpOptions['proxy'],
  env: Readonly<Record<string, string | undefined>>,
): ProxyUse {
  if (option === false) return { reason: 'turned off (http.proxy)' };
  if (option instanceof URL) return { proxy: option, reason: 'http.proxy' };
  const { httpProxy, httpsProxy } = proxiesOfEnvironment();
  if (httpProxy === undefined && httpsProxy === undefined) return { reason: 'the environment names none' };
  if (isLoopbackHost(url.hostname)) return { reason: 'never used for loopback' };
  if (isExempt(url, env.no_proxy ?? env.NO_PROXY ?? '')) return { reason: 'NO_PROXY exempts this host' };
  const isSecure = url.protocol === 'https:';
  // As undici has it: with no HTTPS_PROXY the other one serves https, too.
  const named = isSecure ? (httpsProxy ?? httpProxy) : httpProxy;
  if (named === undefined) return { reason: 'the environment names none for plain http' };
  const parsed = URL.canParse(named) ? new URL(named) : undefined;
  const variable = isSecure && httpsProxy !== undefined ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  return parsed === undefined
    ? { reason: `${variable} is no address` }
    : { proxy: parsed, reason: `by ${variable}` };
}

/** Names, domains with or without a leading dot or `*.`, each with or without a port; `*` alone: every host. */
function isExempt(url: URL, noProxy: string): boolean {
  if (noProxy === '*') return true;
  const host = url.hostname.toLowerCase();
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return noProxy.split(/[,\s]+/).some((entry) => {
    if (entry === '') return false;
    const [, name = entry, digits] = /^(.+):(\d+)$/.exec(entry) ?? [];
    const domain = name.replace(/^\*?\./, '').toLowerCase();
    if (digits !== undefined && Number(digits) !== 0 && Number(digits) !== port) return false;
    return host === domain || host.endsWith(`.${domain}`);
  });
}
