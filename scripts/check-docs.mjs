// Checks the documentation: every ts and js block of README.md and docs/ compiles, every link within the repository leads somewhere.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const HELP = `Usage: node scripts/check-docs.mjs [--built] [FILE...]

Type-checks each \`\`\`ts and \`\`\`js block of README.md and docs/**/*.md as a module of its own, with
exactOptionalPropertyTypes, and looks up each relative link with its anchor. Every block has to name its language;
those that are no TypeScript or JavaScript (sh, json, mermaid, text) are not checked. docs/reference, which is
generated, is left out.

  --built   against the built declarations in dist/, instead of src/
  FILE      pages beside those

In a block these names stand for what a reader has already:
  url, issuer, clientId, clientSecret, refreshToken, redirectUri,
  encryptionKey (32 bytes, base64)                                texts
  info                                                            name and version of the client
  credentials                                                     a CredentialProvider
  client, connection                                              a connected HostedClient, and its connection
  error                                                           what was caught
  log(...), askPerson(...), offer(...)                            functions of the app

Exit status: 0 all is well; 1 something is wrong, named by page and line; 2 unusable arguments.`;

const root = fileURLToPath(new URL('..', import.meta.url));
const given = process.argv.slice(2);
if (given.includes('--help')) {
  console.log(HELP);
  process.exit(0);
}
const unknown = given.find((word) => word.startsWith('-') && word !== '--built');
const isBuilt = given.includes('--built');
const named = given
  .filter((word) => !word.startsWith('-'))
  .map((word) => relative(root, resolve(word)).split(sep).join('/'));
const strange = named.find((page) => !existsSync(join(root, page)) || !statSync(join(root, page)).isFile());
if (unknown !== undefined || strange !== undefined) {
  console.error(unknown === undefined ? `${strange} is no page` : `${unknown} is no option; see --help`);
  process.exit(2);
}

// Late: it takes a second to load.
const { default: ts } = await import('typescript');

const CHECKED = new Map([
  ['ts', '.ts'],
  ['js', '.js'],
]);
const UNCHECKED = new Set(['sh', 'json', 'mermaid', 'text', 'markdown']);

/** What every block may use without saying where it has it from. */
const GIVEN = `
import type { Connection, CredentialProvider } from 'mcp-holdfast';
import type { HostedClient } from 'mcp-holdfast/client';
declare global {
  const encryptionKey: string;
  const url: string, issuer: string, clientId: string, clientSecret: string, refreshToken: string, redirectUri: string;
  const info: { name: string; version: string };
  const credentials: CredentialProvider;
  const client: HostedClient;
  const connection: Connection;
  const error: unknown;
  function log(...values: unknown[]): void;
  function askPerson(tool: string | undefined, given: unknown, signal: AbortSignal): Promise<boolean>;
  function offer(name: string, description: string | undefined, inputSchema: object): void;
}
`;
/**
 * Frameworks that are no dependency here: as much of each as the pages use. The pages were compiled against the real ones, too:
 * AI SDK's 1.0.102, LangChain's adapters 1.1.4, OpenAI Agents 0.20.0, Mastra 2.0.0.
 */
const FRAMEWORKS = {
  '@ai-sdk/mcp': `
    import type { HostedTransport } from 'mcp-holdfast';
    export function createMCPClient(config: { transport: HostedTransport }): Promise<{ tools(): Promise<object>; close(): Promise<void> }>;`,
  '@langchain/mcp-adapters': `
    import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
    export function loadMcpTools(serverName: string, client: Client): Promise<object[]>;`,
  '@openai/agents': `
    export class MCPServerStreamableHttp {
      constructor(options: { url: string; fetch?: (url: string | URL, init?: RequestInit) => Promise<Response> });
      connect(): Promise<void>;
    }`,
  '@mastra/mcp': `
    export class MCPClient {
      constructor(options: { servers: Record<string, { url: URL; fetch?: (url: string | URL, init?: RequestInit) => Promise<Response> }> });
      listTools(): Promise<object>;
    }`,
};

/** Fenced blocks of a page: language, text, and the line that the text begins on (from 0). */
function blocksOf(page, text, problems) {
  const blocks = [];
  let open;
  for (const [at, line] of text.split('\n').entries()) {
    const [, fence, language] = /^\s*(`{3,}|~{3,})\s*(\S*)/.exec(line) ?? [];
    if (open === undefined) {
      if (fence === undefined) continue;
      open = { fence, language, line: at + 1, text: [] };
      if (!CHECKED.has(language) && !UNCHECKED.has(language))
        problems.push(
          `${page}:${at + 1}: the language "${language}" is none of ${[...CHECKED.keys(), ...UNCHECKED].join(', ')}`,
        );
    } else if (fence?.startsWith(open.fence) && line.trim() === fence) {
      blocks.push({ ...open, text: open.text.join('\n') });
      open = undefined;
    } else open.text.push(line);
  }
  if (open !== undefined) problems.push(`${page}:${open.line}: this block has no end`);
  return blocks;
}

/** `## A heading, or two` has the anchor `a-heading-or-two`, as GitHub makes it; `<a id="x">` has `x`. */
function anchorsOf(text) {
  const anchors = new Set();
  const prose = text.replace(/^\s*(`{3,})[\s\S]*?^\s*\1\s*$/gm, '');
  for (const [, heading] of prose.matchAll(/^#{1,6}\s+(.+?)\s*$/gm)) {
    const plain = heading.replace(/\\(?=\W)/g, '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
    const name = plain
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-');
    let unique = name;
    for (let n = 1; anchors.has(unique); n++) unique = `${name}-${n}`;
    anchors.add(unique);
  }
  for (const [, id] of prose.matchAll(/<a id="([^"]+)">/g)) anchors.add(id);
  return anchors;
}

function checkLinks(page, text, problems) {
  const lines = text.split('\n');
  let fence;
  for (const [at, line] of lines.entries()) {
    const [, mark] = /^\s*(`{3,})/.exec(line) ?? [];
    if (mark !== undefined) fence = fence === undefined ? mark : mark === fence ? undefined : fence;
    if (fence !== undefined || mark !== undefined) continue;
    for (const [, target] of line.replace(/`[^`]*`/g, '').matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? join(root, page) : resolve(dirname(join(root, page)), path);
      if (!existsSync(file)) problems.push(`${page}:${at + 1}: ${target} leads nowhere`);
      else if (anchor !== undefined && !anchorsOf(readFileSync(file, 'utf8')).has(anchor))
        problems.push(`${page}:${at + 1}: ${target}: the page has no such heading`);
    }
  }
}

/** Where `mcp-holdfast` and its entries are: `src/`, by a table, or `dist/`, by the package's own exports. */
function entryPaths() {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const paths = {};
  for (const [entry, target] of Object.entries(exports)) {
    if (typeof target === 'string') continue;
    const name = entry.slice(2);
    const file =
      name === ''
        ? 'src/index.ts'
        : [`src/${name}.ts`, `src/${name}/index.ts`].find((path) => existsSync(join(root, path)));
    paths[`mcp-holdfast${entry.slice(1)}`] = [join(root, file)];
  }
  return paths;
}

function checkBlocks(modules, isBuilt, problems) {
  const files = new Map(modules.map((module) => [module.file, module.text]));
  const given = join(root, 'docs/check-given.ts');
  files.set(given, GIVEN);
  const frameworks = Object.fromEntries(
    Object.entries(FRAMEWORKS).map(([name, text]) => {
      const file = join(root, `docs/check-${name.replace(/\W+/g, '-')}.ts`);
      files.set(file, text.replace(/export (class|function)/g, 'export declare $1'));
      return [name, [file]];
    }),
  );
  const options = {
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts'],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    moduleDetection: ts.ModuleDetectionKind.Force,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    allowJs: true,
    checkJs: true,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
    paths: { ...frameworks, ...(isBuilt ? {} : entryPaths()) },
  };
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (file) => files.has(file) || fileExists(file);
  host.readFile = (file) => files.get(file) ?? readFile(file);
  host.getSourceFile = (file, languageOptions, ...rest) =>
    files.has(file)
      ? ts.createSourceFile(file, files.get(file), languageOptions, true)
      : getSourceFile(file, languageOptions, ...rest);
  const program = ts.createProgram([...files.keys()], options, host);
  for (const diagnostic of program.getOptionsDiagnostics()) {
    problems.push(`the compiler: ${ts.flattenDiagnosticMessageText(diagnostic.messageText, ' ')}`);
  }
  const own = [
    ...modules,
    ...[...files.keys()]
      .filter((file) => modules.every((module) => module.file !== file))
      .map((file) => ({ file, page: 'scripts/check-docs.mjs', line: 0 })),
  ];
  for (const { file, page, line } of own) {
    const source = program.getSourceFile(file);
    for (const diagnostic of [
      ...program.getSyntacticDiagnostics(source),
      ...program.getSemanticDiagnostics(source),
    ]) {
      const at = source.getLineAndCharacterOfPosition(diagnostic.start ?? 0);
      const words = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n    ');
      problems.push(`${page}:${line + at.line + 1}:${at.character + 1}: TS${diagnostic.code}: ${words}`);
    }
  }
}

function pagesOf() {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    .filter((path) => path.endsWith('.md') && !path.startsWith('reference/'));
  return ['README.md', ...docs.map((path) => `docs/${path}`).sort()];
}

const problems = [];
const modules = [];
const pages = [...new Set([...pagesOf(), ...named])];
for (const page of pages) {
  const text = readFileSync(join(root, page), 'utf8');
  checkLinks(page, text, problems);
  for (const block of blocksOf(page, text, problems)) {
    const ending = CHECKED.get(block.language);
    if (ending === undefined) continue;
    // In docs/, so that packages are found as in the project; the name is nobody's file.
    const file = join(root, 'docs', `check-${page.replace(/\W+/g, '-')}-${block.line}${ending}`);
    modules.push({ file, page, line: block.line, text: block.text });
  }
}
checkBlocks(modules, isBuilt, problems);
for (const problem of problems) console.error(problem);
console.log(`${pages.length} pages, ${modules.length} blocks, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
