/**
 * The example of the first page: a local build with eleven tools and a hosted one with thirteen; the sets are not
 * nested, and neither version is the later one.
 */
import { snapshotOf, toolOf } from '../unit/contract/support.js';

const BOTH = [
  'list_issues',
  'get_issue',
  'create_issue',
  'update_issue',
  'list_projects',
  'get_project',
  'search',
  'list_users',
  'get_user',
  'add_comment',
];

export const LOCAL = snapshotOf({
  environment: 'local',
  serverInfo: { name: 'tracker', version: '0.4.0' },
  capabilities: { tools: {} },
  tools: [...BOTH, 'run_sql'].map((name) => toolOf(name)),
});

export const HOSTED = snapshotOf({
  environment: 'hosted',
  url: 'https://mcp.example.com/mcp',
  serverInfo: { name: 'tracker', version: '2026.02.3' },
  capabilities: { tools: { listChanged: true }, prompts: {} },
  tools: [...BOTH, 'list_teams', 'archive_project', 'whoami'].map((name) =>
    // Of these the shape is unlike run_sql's, or it would look renamed.
    toolOf(name, {
      inputSchema: BOTH.includes(name)
        ? { type: 'object' }
        : { type: 'object', properties: { team: { type: 'string' } }, required: ['team'] },
    }),
  ),
});
