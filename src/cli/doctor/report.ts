/**
 * What `doctor` found, as data: rows for people, facts for machines.
 *
 * Guarantees one order of sections, that the exit status is that of the worst row, and that no key of the
 * JSON form is missing: what was not reached or not asked for is null. Never holds a secret: whoever writes a
 * row has our own words, and server text goes in through `shown()`.
 */
import { cleanServerText } from '../../errors.js';
import { EXIT, type ExitCode } from '../exit-codes.js';

export const SECTIONS = Object.freeze(['way', 'mcp', 'credential', 'idle', 'limits', 'timing'] as const);
export type Section = (typeof SECTIONS)[number];

/** `ok`: as it should be. `note`: worth knowing. `finding`: to be looked at. `failure`: nothing works until it is mended. */
export type Level = 'ok' | 'note' | 'finding' | 'failure';

export interface Row {
  readonly section: Section;
  /** Short and stable, e.g. `certificate`. */
  readonly name: string;
  readonly level: Level;
  readonly measured: string;
  readonly meaning?: string | undefined;
  /** What to do, naming the option of ours where there is one. */
  readonly set?: string | undefined;
}

/** Facts of one section, for `--json`. Durations end in `Ms`, instants in `AtMs`. */
export type Facts = Record<string, unknown>;

export class Report {
  readonly url: string;
  readonly startedAtMs: number;
  readonly rows: Row[] = [];
  readonly facts: Record<Section, Facts | null> = {
    way: null,
    mcp: null,
    credential: null,
    idle: null,
    limits: null,
    timing: null,
  };
  /** Of the failure that ended it. */
  #failed: ExitCode | undefined;

  /** `shownUrl`: fit to be shown. */
  constructor(shownUrl: string, startedAtMs: number) {
    this.url = shownUrl;
    this.startedAtMs = startedAtMs;
  }

  get exitCode(): ExitCode {
    if (this.#failed !== undefined) return this.#failed;
    return this.rows.some(({ level }) => level === 'finding') ? EXIT.finding : EXIT.ok;
  }

  add(row: Row): void {
    this.rows.push(row);
    this.facts[row.section] ??= {};
  }

  /** Facts of a section are gathered from more than one place. */
  note(section: Section, facts: Facts): void {
    this.facts[section] = { ...this.facts[section], ...facts };
  }

  /** Whatever would follow cannot be looked at any more. */
  fail(exitCode: ExitCode, row: Omit<Row, 'level'>): DoctorFailure {
    this.#failed ??= exitCode;
    this.add({ ...row, level: 'failure' });
    return new DoctorFailure(row.measured);
  }

  /** One object; its keys are stable. */
  toJSON(): Facts {
    return {
      doctor: 1,
      url: this.url,
      startedAtMs: this.startedAtMs,
      exitCode: this.exitCode,
      findings: this.rows
        .filter(({ level }) => level === 'finding' || level === 'failure')
        .map(({ section, name, level, measured, meaning, set }) => ({
          section,
          name,
          level,
          measured,
          meaning: meaning ?? null,
          set: set ?? null,
        })),
      ...this.facts,
    };
  }
}

/** Ends the examination; what was found until then is reported. Its message is the one clear line. */
export class DoctorFailure extends Error {
  override readonly name = 'DoctorFailure';
}

/** Without user, query and fragment, where secrets may stand. */
export function addressOf(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** Server text for a person: one line, nothing invisible, short. */
export function shown(text: string, length = 80): string {
  const clean = cleanServerText(text);
  return clean.length > length ? `${clean.slice(0, length)}…` : clean;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** In the largest unit that fits: `12 ms`, `3 s`, `59 min`, `23 h`, `14 days`. */
export function span(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 3 * MINUTE_MS) return `${wholeSeconds(ms)} s`;
  if (ms < 3 * HOUR_MS) return `${Math.round(ms / MINUTE_MS)} min`;
  if (ms < 3 * DAY_MS) return `${Math.round(ms / HOUR_MS)} h`;
  return `${Math.round(ms / DAY_MS)} days`;
}

/** Limits are set in whole seconds; what is seen of them is a little off. */
export function wholeSeconds(ms: number): number {
  return Math.round(ms / 1_000);
}
