// What the command is asked for.
const LISTS = {
  '--only': 'only',
  '--contenders': 'contenders',
  '--answers': 'answers',
  '--concurrency': 'concurrency',
};
const NUMBERS = { '--rounds': 'rounds', '--calls': 'calls' };
const FLAGS = { '--json': 'json', '--no-write': 'noWrite', '--quick': 'quick', '--help': 'help' };
const CHOICES = { answers: ['json', 'sse', 'small', 'large'], concurrency: ['1', '64', '512'] };

/** Throws a RangeError that says what was not understood. `choices` are the names that `only` and `contenders` may take. */
export function readArguments(args, choices) {
  const given = { only: [], contenders: [], answers: [], concurrency: [] };
  const allowed = { ...CHOICES, ...choices };
  for (let at = 0; at < args.length; at += 1) {
    const [name, value] = [args[at], args[at + 1]];
    if (Object.hasOwn(FLAGS, name)) {
      given[FLAGS[name]] = true;
    } else if (Object.hasOwn(NUMBERS, name)) {
      if (!(Number(value) > 0)) throw new RangeError(`${name} takes a number above 0`);
      given[NUMBERS[name]] = Number(value);
      at += 1;
    } else if (Object.hasOwn(LISTS, name)) {
      const list = LISTS[name];
      const names = (value ?? '').split(',');
      const unknown = names.find((each) => !allowed[list].includes(each));
      if (unknown !== undefined)
        throw new RangeError(`${name} ${unknown}: none of ${allowed[list].join(', ')}`);
      given[list].push(...names);
      at += 1;
    } else throw new RangeError(`not understood: ${name}`);
  }
  const rounds = given.rounds ?? (given.quick ? 3 : 7);
  return {
    ...given,
    rounds,
    calls: given.calls ?? (given.quick ? 0.3 : 1),
    noWrite: given.noWrite ?? given.quick ?? false,
  };
}

/** Is that cell of the CPU table wanted? Nothing named means all; `json` and `sse` are one choice, `small` and `large` another. */
export function cellFilter({ answers, concurrency }) {
  const fits = (value, group) => !answers.some((each) => group.includes(each)) || answers.includes(value);
  return (kind, size, atOnce) =>
    fits(kind, ['json', 'sse']) &&
    fits(size, ['small', 'large']) &&
    (concurrency.length === 0 || concurrency.includes(String(atOnce)));
}
