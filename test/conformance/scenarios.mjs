/**
 * What each scenario of the official suite wants from the client under test, in one table.
 *
 * `run` are the steps, in the words that the Clients of both SDKs share; `access` says where a token comes from;
 * `capabilities` and `answer` are for servers that ask back. `later` marks what exists in revision 2026-07-28 alone,
 * so that a Client of the SDK v1 cannot be asked for it. A scenario that is not here is refused by the drivers, so that
 * a new one shows as a failure and not as a gap.
 *
 * `refusal`: what mcp-holdfast has to refuse, and by which code and reason. There the suite takes every end of the
 * client for a pass, one for another reason as well.
 */
const listTools = (client) => client.listTools();

/** What a server behind authorization is asked: each request may be challenged anew. */
async function listAndCall(client) {
  const { tools } = await client.listTools();
  if (tools.length > 0) await client.callTool({ name: tools[0].name, arguments: {} });
}

async function callEvery(client, args = {}) {
  const { tools } = await client.listTools();
  for (const { name } of tools) await client.callTool({ name, arguments: args });
}

/** A result without a type is for the Client to take or to refuse; what is judged is that nothing is asked twice. */
async function callEveryRound(client) {
  const { tools } = await client.listTools();
  for (const { name } of tools) {
    const called = client.callTool({ name, arguments: {} });
    await (name === 'test_mrtr_no_result_type' ? called.catch(() => {}) : called);
  }
}

async function callNamed(client, name, args) {
  await client.listTools();
  await client.callTool({ name, arguments: args });
}

async function useEverything(client) {
  await callEvery(client);
  const { resources } = await client.listResources();
  for (const { uri } of resources) await client.readResource({ uri });
  const { prompts } = await client.listPrompts();
  for (const { name } of prompts) await client.getPrompt({ name });
}

async function callAsTold(client, { context }) {
  await client.listTools();
  for (const { name, arguments: args } of context.toolCalls) await client.callTool({ name, arguments: args });
}

/** Sends the schema back as it was received. */
async function returnSchema(client) {
  const { tools } = await client.listTools();
  const { inputSchema } = tools.find(({ name }) => name === 'json_schema_2020_12_tool');
  await client.callTool({ name: 'json_schema_echo', arguments: { schema: inputSchema } });
}

const listSkills = (_client, { skills }) => skills.list();

/** Its file is read only after the skill itself, which must not be taken where it differs from its entry. */
async function loadSkill(_client, { skills }) {
  const [entry] = (await skills.list()).skills;
  await skills.read(entry);
  await skills.read(entry, 'references/FORMS.md');
}

const withCode = { run: listAndCall, access: 'code' };
const skill = { run: loadSkill, later: true, skills: true };

export const SCENARIOS = {
  initialize: { run: listTools },
  tools_call: { run: (client) => callNamed(client, 'add_numbers', { a: 2, b: 3 }) },
  'elicitation-sep1034-client-defaults': {
    run: callEvery,
    capabilities: { elicitation: { form: { applyDefaults: true } } },
    answer: {},
  },
  'sse-retry': { run: (client) => callNamed(client, 'test_reconnection', {}) },
  'request-metadata': {
    run: listAndCall,
    later: true,
    capabilities: { roots: {}, sampling: {}, elicitation: { form: {} } },
  },
  'sep-2322-client-request-state': {
    run: callEveryRound,
    later: true,
    capabilities: { elicitation: { form: {} } },
    answer: { confirmed: true },
  },
  'http-standard-headers': { run: useEverything, later: true },
  'http-custom-headers': { run: callAsTold, later: true },
  'http-invalid-tool-headers': { run: (client) => callEvery(client, { region: 'eu' }), later: true },
  'json-schema-ref-no-deref': { run: listTools },
  'json-schema-2020-12-preservation': { run: returnSchema },

  'auth/metadata-default': withCode,
  'auth/metadata-var1': withCode,
  'auth/metadata-var2': withCode,
  'auth/metadata-var3': withCode,
  'auth/basic-cimd': { ...withCode, identity: 'document' },
  'auth/scope-from-www-authenticate': withCode,
  'auth/scope-from-scopes-supported': withCode,
  'auth/scope-omitted-when-undefined': withCode,
  'auth/scope-step-up': withCode,
  'auth/scope-retry-limit': { ...withCode, refusal: 'ERR_INSUFFICIENT_SCOPE' },
  'auth/token-endpoint-auth-basic': withCode,
  'auth/token-endpoint-auth-post': withCode,
  'auth/token-endpoint-auth-none': withCode,
  'auth/pre-registration': { ...withCode, identity: 'registered' },
  'auth/2025-03-26-oauth-metadata-backcompat': withCode,
  'auth/2025-03-26-oauth-endpoint-fallback': withCode,
  'auth/resource-mismatch': { ...withCode, refusal: 'ERR_DISCOVERY resource_mismatch' },
  'auth/offline-access-scope': withCode,
  'auth/offline-access-not-supported': withCode,
  'auth/authorization-server-migration': withCode,
  'auth/iss-supported': withCode,
  'auth/iss-not-advertised': withCode,
  'auth/iss-supported-missing': { ...withCode, refusal: 'ERR_REAUTHORIZATION_REQUIRED issuer_mismatch' },
  'auth/iss-wrong-issuer': { ...withCode, refusal: 'ERR_REAUTHORIZATION_REQUIRED issuer_mismatch' },
  'auth/iss-unexpected': { ...withCode, refusal: 'ERR_REAUTHORIZATION_REQUIRED issuer_mismatch' },
  'auth/iss-normalized': { ...withCode, refusal: 'ERR_REAUTHORIZATION_REQUIRED issuer_mismatch' },
  'auth/metadata-issuer-mismatch': { ...withCode, refusal: 'ERR_DISCOVERY issuer_mismatch' },

  'auth/client-credentials-jwt': { run: listAndCall, access: 'machine-key' },
  'auth/client-credentials-basic': { run: listAndCall, access: 'machine-secret' },
  'auth/enterprise-managed-authorization': { run: listAndCall, access: 'enterprise' },
  'auth/dpop': { ...withCode, dpop: true },
  'auth/dpop-nonce': { ...withCode, dpop: true },
  'auth/wif-jwt-bearer': { run: listAndCall, access: 'assertion' },
  'sep-2640-client-no-prefetch': { ...skill, run: listSkills },
  'sep-2640-client-verify-digest': skill,
  'sep-2640-client-verify-size': skill,
  'sep-2640-client-verify-frontmatter': skill,
};

/** Before the code of the error that a driver ended with. */
export const REFUSED = 'refused: ';
export const INFO = { name: 'mcp-holdfast-conformance', version: '1.0.0' };
export const REDIRECT_URI = 'http://localhost:3000/callback';
/** The only one that the suite knows. */
export const CLIENT_DOCUMENT = 'https://conformance-test.local/client-metadata.json';

/** What the suite tells a driver: the address as an argument, the rest in the environment. */
export function told() {
  const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? '';
  const entry = Object.hasOwn(SCENARIOS, scenario) ? SCENARIOS[scenario] : undefined;
  if (entry === undefined) {
    process.stderr.write(`No such scenario here: ${scenario}\n`);
    process.exit(1);
  }
  const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
  return { url: process.argv.at(-1), scenario, entry, context };
}

/** In place of a person and a browser: the suite's authorization servers redirect at once. */
export async function followRedirect(url) {
  const response = await fetch(url, { redirect: 'manual' });
  const location = response.headers.get('location');
  if (location === null) throw new Error(`The authorization server answered ${response.status}, no redirect`);
  return new URL(location, url);
}

/**
 * Runs a driver and ends the process as the suite reads it: status 0 when all went well. `read` finds our own error in
 * what was thrown: its code and reason are written where the command looks for `refusal`.
 */
export async function finish(run, read = () => undefined) {
  try {
    await run();
  } catch (error) {
    const own = read(error);
    if (own !== undefined) process.stderr.write(`${REFUSED}${[own.code, own.reason].join(' ').trim()}\n`);
    process.stderr.write(`${error?.stack ?? error}\n`);
    if (error?.cause !== undefined) process.stderr.write(`caused by ${error.cause?.stack ?? error.cause}\n`);
    process.exit(1);
  }
  process.exit(0);
}
