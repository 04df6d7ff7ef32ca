/**
 * Which addresses may be spoken to.
 *
 * Guarantees that what passes is http or https, carries no credentials, and is plain http only where the
 * bytes stay on this machine or the app said so. Never resolves a name, and never repeats the address in an
 * error: it may hold a password or a token.
 */

/** Hosts that never leave this machine: `localhost`, `*.localhost`, 127.0.0.0/8 and `[::1]`. */
export function isLoopbackHost(hostname: string): boolean {
  // The URL parser has already turned 127.1 or 0x7f000001 into four decimal numbers.
  return (
    hostname === 'localhost' ||
    hostname === '[::1]' ||
    hostname.endsWith('.localhost') ||
    /^127\.\d+\.\d+\.\d+$/.test(hostname)
  );
}

/**
 * Parses and checks the address of a server. Returns a copy without a fragment.
 * Throws TypeError: not an http(s) URL, credentials in it, or plain http off loopback without `allowInsecure`.
 */
export function checkAddress(url: string | URL, allowInsecure: boolean): URL {
  let address: URL;
  try {
    address = new URL(typeof url === 'string' ? url : url.href);
  } catch {
    throw new TypeError('The server address is not an absolute URL.');
  }
  if (address.protocol !== 'https:' && address.protocol !== 'http:') {
    throw new TypeError('The server address must begin with https:// or http://.');
  }
  if (address.username !== '' || address.password !== '') {
    throw new TypeError(
      'The server address must not carry a user name or password; give a credential instead.',
    );
  }
  if (address.protocol === 'http:' && !allowInsecure && !isLoopbackHost(address.hostname)) {
    throw new TypeError(
      'Plain http is refused off loopback, because credentials would travel in clear: use https, or set http.allowInsecure.',
    );
  }
  address.hash = '';
  return address;
}
