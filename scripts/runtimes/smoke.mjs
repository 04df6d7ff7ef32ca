// An ESM app: `smoke.mjs <way>`.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import * as main from 'mcp-holdfast';
import * as client from 'mcp-holdfast/client';
import * as testing from 'mcp-holdfast/testing';
import { smoke } from './scenario.cjs';

process.stdout.write(
  JSON.stringify(await smoke({ main, client, testing, SdkClient: Client }, process.argv[2])),
);
process.exit(0);
