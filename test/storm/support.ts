/** What the tests' storms are made over: the sources, where the command takes the built library. */
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as FetchTransportV2,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FetchTransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Redis } from 'ioredis';
import type { Storm, StormRedis } from '../../scripts/storm/run.mjs';
import * as client from '../../src/client.js';
import * as redis from '../../src/redis/index.js';
import * as relay from '../../src/relay/index.js';
import { startHostedServer } from '../../src/testing/index.js';
import { type RedisServer, startRedis } from '../redis/server.js';

export const SOURCES = {
  ...client,
  ...redis,
  ...relay,
  startHostedServer,
  ClientV1,
  ClientV2,
  FetchTransportV1,
  FetchTransportV2,
  Redis,
};

export async function stormRedis(): Promise<StormRedis & Pick<RedisServer, 'close'>> {
  const server = await startRedis();
  return {
    port: server.port,
    freeze: () => server.freeze(),
    thaw: () => server.thaw(),
    kill: () => server.kill(),
    start: () => server.restart(),
    close: () => server.close(),
  };
}

/** For a message that says more than a number. */
export function told({ violations, codes }: Storm): string {
  return `${violations.slice(0, 5).join('\n')}\n${JSON.stringify(codes)}`;
}
