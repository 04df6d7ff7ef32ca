/**
 * The HTTP client that the options ask for.
 *
 * Guarantees one way of speaking to an origin whatever is underneath. Never opens a socket or loads a
 * module by itself: that happens at the first exchange.
 */
import type { Clock } from '../clock.js';
import type { HttpClient } from './exchange.js';
import { FetchClient } from './fetch-client.js';
import type { ResolvedHttpOptions } from './options.js';
import { RedirectingClient } from './redirects.js';
import { ScarceDispatcherClient } from './scarce-dispatcher.js';
import { UndiciClient } from './undici-client.js';

export function createHttpClient(options: ResolvedHttpOptions, clock: Clock): HttpClient {
  let road: HttpClient =
    options.fetch === undefined ? new UndiciClient(options) : new FetchClient(options.fetch, options);
  if (options.dispatcher !== undefined) road = new ScarceDispatcherClient(road, clock);
  return new RedirectingClient(road, clock, options.headersTimeoutMs);
}
