/**
 * The report for a person at a terminal.
 *
 * Guarantees that every row says what was measured, and, where that is not as it should be, what it means and
 * what to set. Never shows a control character: rows are made of our words and of cleaned ones.
 */
import { type Level, type Report, type Row, SECTIONS, type Section } from './report.js';

const TITLES: Readonly<Record<Section, string>> = Object.freeze({
  way: 'The way',
  mcp: 'MCP',
  credential: 'Credential',
  idle: 'Idle limit',
  limits: 'Limits',
  timing: 'Timing',
});
const MARKS: Readonly<Record<Level, string>> = Object.freeze({
  ok: 'ok',
  note: 'note',
  finding: 'FINDING',
  failure: 'FAILURE',
});
const COLOURS: Readonly<Record<Level, string>> = Object.freeze({
  ok: '32',
  note: '36',
  finding: '33',
  failure: '31',
});
const MARK_WIDTH = 7;
const WIDTH = 100;

export function formatReport(report: Report, color: boolean): string {
  const lines = [report.url];
  const nameWidth = Math.max(...report.rows.map(({ name }) => name.length), 0);
  for (const section of SECTIONS) {
    const rows = report.rows.filter((row) => row.section === section);
    if (rows.length === 0) continue;
    lines.push('', paint(TITLES[section], '1', color));
    for (const row of rows) lines.push(...rowLines(row, nameWidth, color));
  }
  lines.push('', summaryOf(report));
  return `${lines.join('\n')}\n`;
}

function rowLines({ level, name, measured, meaning, set }: Row, nameWidth: number, color: boolean): string[] {
  const mark = paint(MARKS[level].padEnd(MARK_WIDTH), COLOURS[level], color);
  const indent = 2 + MARK_WIDTH + 2 + nameWidth + 2;
  const lines: string[] = [];
  for (const [lead, text] of [
    ['', measured],
    ['means: ', meaning],
    ['set: ', set],
  ] as const) {
    if (text === undefined) continue;
    const wrapped = wrap(`${lead}${text}`, Math.max(WIDTH - indent, 40));
    for (const line of wrapped) lines.push(`${' '.repeat(indent)}${line}`);
  }
  const [first = '', ...others] = lines;
  return [`  ${mark}  ${name.padEnd(nameWidth)}  ${first.trimStart()}`, ...others];
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

function summaryOf(report: Report): string {
  const count = (level: Level) => report.rows.filter((row) => row.level === level).length;
  const findings = count('finding');
  const found = findings === 0 ? 'No finding' : findings === 1 ? '1 finding' : `${findings} findings`;
  const ended = count('failure') > 0;
  const what = !ended ? found : findings === 0 ? 'Ended by a failure' : `${found}, and ended by a failure`;
  return `${what}. Exit status ${report.exitCode}.`;
}

function paint(text: string, code: string, color: boolean): string {
  return color ? `\u001b[${code}m${text}\u001b[0m` : text;
}
