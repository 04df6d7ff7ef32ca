// What a storm is made over: the built library, both SDKs and a Redis client.
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as FetchTransportV2,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FetchTransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Redis } from 'ioredis';
import * as client from 'mcp-holdfast/client';
import * as redis from 'mcp-holdfast/redis';
import * as relay from 'mcp-holdfast/relay';
import { startHostedServer } from 'mcp-holdfast/testing';

export const BUILT = {
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
