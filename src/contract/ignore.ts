/**
 * Paths that a caller chose to leave out of a comparison.
 *
 * Guarantees that a path covers whole steps only, and all below it. Never leaves anything out in silence: the
 * caller gets the path that covered a change.
 */

/** One step of a pattern; `undefined` stands for any. */
type Step = string | undefined;

export interface IgnoredPath {
  readonly text: string;
  readonly steps: readonly Step[];
}

/** Throws a `TypeError` naming the option for a path that could cover nothing or everything. */
export function parseIgnoredPaths(paths: readonly string[] | undefined): readonly IgnoredPath[] {
  return (paths ?? []).map((text) => {
    const steps = typeof text === 'string' ? stepsOf(text) : [];
    if (steps.length === 0 || steps.includes('')) {
      throw new TypeError('ignore: each path needs steps such as in "tools.*.title"');
    }
    if (steps.every((step) => step === undefined)) {
      throw new TypeError('ignore: a path of stars alone would leave everything out');
    }
    return { text, steps };
  });
}

/** The first of them that covers `path`. */
export function coveredBy(ignored: readonly IgnoredPath[], path: readonly string[]): string | undefined {
  return ignored.find(
    ({ steps }) =>
      steps.length <= path.length && steps.every((step, at) => step === undefined || step === path[at]),
  )?.text;
}

function stepsOf(text: string): Step[] {
  const steps: Step[] = [];
  let step = '';
  let escaped = false;
  const end = () => {
    steps.push(step === '*' && !escaped ? undefined : step);
    step = '';
    escaped = false;
  };
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\' && at + 1 < text.length) {
      step += text[++at];
      escaped = true;
    } else if (text[at] === '.') end();
    else step += text[at];
  }
  end();
  return steps;
}
