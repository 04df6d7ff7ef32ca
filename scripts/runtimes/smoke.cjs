// A CommonJS app: `smoke.cjs <way>`.
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const main = require('mcp-holdfast');
const client = require('mcp-holdfast/client');
const testing = require('mcp-holdfast/testing');
const { smoke } = require('./scenario.cjs');

smoke({ main, client, testing, SdkClient: Client }, process.argv[2]).then(
  (found) => {
    process.stdout.write(JSON.stringify(found));
    process.exit(0);
  },
  (error) => {
    process.stderr.write(String(error?.stack ?? error));
    process.exit(1);
  },
);
