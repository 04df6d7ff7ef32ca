/**
 * A diff for people: on a terminal, and as a comment on a pull request.
 *
 * Guarantees that no character which a terminal obeys or hides is passed on as itself, that server text in the
 * Markdown form stands in fences it cannot close (no mention, link, image or heading comes of it), and that what
 * was left out is said. Never shortens the text form; the Markdown form says how many lines it left out.
 */
import { isJsonObject, readableJson, readableJsonLine } from './canonical.js';
import { LEVELS } from './change.js';
import { showTextChange } from './text-change.js';
import type { ContractChange, ContractDiff, ContractLevel, ContractSide, SchemaChangeHow } from './types.js';
import { visible } from './visible.js';

export interface FormatDiffOptions {
  /** `'text'` by default. For machines the diff itself is JSON. */
  readonly as?: 'text' | 'markdown' | undefined;
  /** Colours for a terminal, in the text form only; off by default. */
  readonly color?: boolean | undefined;
}

/** A comment on GitHub holds 65,536 characters, on GitLab more; room is left for what is put around it. */
const MARKDOWN_LENGTH = 60_000;
/** A fence has to be longer than any run of backticks; a run as long as this is spelled out instead. */
const LONG_RUN = /`{17,}/g;

export function formatDiff(diff: ContractDiff, options: FormatDiffOptions = {}): string {
  return options.as === 'markdown' ? asMarkdown(diff) : asText(diff, options.color ?? false);
}

type Line = { readonly sign: '-' | '+' | ' ' | '#'; readonly text: string };

function asText(diff: ContractDiff, color: boolean): string {
  const out: string[] = [`--- ${visible(sideName(diff.from))}`, `+++ ${visible(sideName(diff.to))}`];
  for (const level of LEVELS) {
    const changes = diff.changes.filter((change) => change.level === level);
    if (changes.length === 0) continue;
    out.push('', paint(headingOf(level, changes.length), 'heading', color));
    for (const line of linesOf(changes)) out.push(`  ${painted(line, color)}`);
  }
  out.push('', ...summaryOf(diff));
  return `${out.join('\n')}\n`;
}

function asMarkdown(diff: ContractDiff): string {
  const out: string[] = [];
  let room = MARKDOWN_LENGTH;
  let hidden = 0;
  for (const level of LEVELS) {
    const changes = diff.changes.filter((change) => change.level === level);
    if (changes.length === 0) continue;
    const shown: string[] = [];
    for (const { sign, text } of linesOf(changes)) {
      // The sign comes first on its line, or a viewer would not colour it.
      const safe = text.replace(LONG_RUN, (run) => '\\u{60}'.repeat(run.length));
      const line = sign === '#' ? `@@ ${safe} @@` : `${sign}${safe}`;
      room -= line.length + 1;
      if (room > 0 && hidden === 0) shown.push(line);
      else hidden++;
    }
    out.push(`### ${headingOf(level, changes.length)}`, '', fenced(shown, 'diff'), '');
  }
  const sides = [`--- ${visible(sideName(diff.from))}`, `+++ ${visible(sideName(diff.to))}`];
  const cut = hidden === 0 ? [] : [`**${hidden} lines are not shown here: see the text form.**`, ''];
  const summary = summaryOf(diff);
  return `${['## Contract', '', fenced(sides, 'diff'), '', ...cut, ...out, fenced(summary, 'text')].join('\n')}\n`;
}

/** Longer than any run of backticks within, so that none of them ends it. */
function fenced(lines: readonly string[], language: string): string {
  let longest = 2;
  for (const line of lines) {
    for (const [run] of line.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  }
  const fence = '`'.repeat(longest + 1);
  return [`${fence}${language}`, ...lines, fence].join('\n');
}

function linesOf(changes: readonly ContractChange[]): Line[] {
  const lines: Line[][] = [];
  let subject: string | undefined;
  for (const change of changes) {
    const current = subjectOf(change);
    if (current !== subject) lines.push([{ sign: '#', text: current }]);
    subject = current;
    lines.push([{ sign: ' ', text: ` ${whatOf(change)}` }], valuesOf(change));
  }
  return lines.flat();
}

function subjectOf({ path, name }: ContractChange): string {
  const part = path[0];
  if (part === 'tools') return `tool ${visible(name)}`;
  if (part === 'resources' && path.length > 1) return `resource ${visible(name)}`;
  if (part === 'prompts' && path.length > 1) return `prompt ${visible(name)}`;
  return visible(part ?? name);
}

function whatOf(change: ContractChange): string {
  const { kind, how, path, onlyInvisible } = change;
  const named = path[0] === 'tools' || path[0] === 'resources' || path[0] === 'prompts';
  const place = path
    .slice(named ? 2 : 1)
    .map(step)
    .join('.');
  const words = how === undefined ? (KIND_WORDS[kind] ?? 'changed') : HOW_WORDS[how];
  const hidden = onlyInvisible ? ': only characters that are not shown differ' : '';
  return `${place === '' ? '' : `${place}: `}${words}${hidden}`;
}

const KIND_WORDS: Partial<Record<ContractChange['kind'], string>> = Object.freeze({
  'tool-added': 'added',
  'tool-removed': 'removed',
  'tool-renamed': 'looks renamed',
  'tool-duplicated': 'listed more than once under one name',
  'tool-field-changed': 'changed',
  'capability-added': 'added',
  'capability-removed': 'removed',
  'resource-added': 'added',
  'resource-removed': 'removed',
  'resource-duplicated': 'listed more than once under one URI',
  'prompt-added': 'added',
  'prompt-removed': 'removed',
  'prompt-duplicated': 'listed more than once under one name',
  'part-not-compared': 'not compared: only one of the two has it',
});

const HOW_WORDS: Readonly<Record<SchemaChangeHow, string>> = Object.freeze({
  'property-added': 'property added',
  'property-removed': 'property removed',
  'required-added': 'more is required',
  'required-removed': 'less is required',
  narrowed: 'fewer values are valid',
  widened: 'more values are valid',
  incompatible: 'other values are valid',
  annotation: 'words or defaults changed',
  spelling: 'written differently, means the same',
  'cannot-tell': 'changed, cannot tell what it means',
});

function valuesOf({ kind, from, to }: ContractChange): Line[] {
  if (kind === 'part-not-compared') return [];
  if (typeof from === 'string' && typeof to === 'string') {
    const shown = showTextChange(from, to);
    const note = shown.note === undefined ? [] : [{ sign: ' ' as const, text: `   ${shown.note}` }];
    return [...signed('-', shown.from), ...signed('+', shown.to), ...note];
  }
  return [...signed('-', valueLines(from)), ...signed('+', valueLines(to))];
}

function valueLines(value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (typeof value === 'string') return value.split('\n').map(visible);
  const nested =
    isJsonObject(value) || (Array.isArray(value) && value.some((item) => typeof item === 'object'));
  return nested ? readableJson(value).split('\n') : [readableJsonLine(value)];
}

function signed(sign: '-' | '+', lines: readonly string[]): Line[] {
  return lines.map((text) => ({ sign, text: `   ${text}` }));
}

/** A step with a dot or a space in it is quoted, so that the path can be read. */
function step(name: string): string {
  return /^[\w$-]+$/.test(name) ? name : readableJsonLine(name);
}

function sideName({ environment, url, takenAt }: ContractSide): string {
  return [environment, url, takenAt].filter((part) => part !== undefined).join(' ');
}

function headingOf(level: ContractLevel, count: number): string {
  return `${level}: ${count} ${count === 1 ? 'change' : 'changes'}`;
}

function summaryOf(diff: ContractDiff): string[] {
  if (diff.identical) return ['The contracts are identical.'];
  const verdict = diff.level === undefined ? 'No difference but those left out.' : `Verdict: ${diff.level}.`;
  const counts = new Map<string, number>();
  for (const { by } of diff.leftOut) counts.set(by, (counts.get(by) ?? 0) + 1);
  const leftOut = [...counts].map(([by, count]) => `Left out by choice: ${count} under ${visible(by)}`);
  return [verdict, ...leftOut];
}

const COLOURS = Object.freeze({ '-': '31', '+': '32', '#': '36', ' ': '', heading: '1' });

function painted({ sign, text }: Line, color: boolean): string {
  const plain = sign === '#' ? text : `${sign}${text}`;
  return paint(plain, sign, color);
}

function paint(text: string, role: keyof typeof COLOURS, color: boolean): string {
  return color && COLOURS[role] !== '' ? `\u001b[${COLOURS[role]}m${text}\u001b[0m` : text;
}
