/**
 * Where a value stands in JSON text, for errors that a person has to act on.
 *
 * Guarantees one pass over the text, without recursion. Expects whole JSON; never builds values.
 */

/** Names of members and numbers of elements, from the outermost inwards. */
export type JsonPath = readonly (string | number)[];

export interface TextPlace {
  readonly line: number;
  readonly column: number;
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Of the member's key, or of the element itself; undefined where the text has no such value. */
export function placeInJson(json: string, path: JsonPath): TextPlace | undefined {
  const steps: (string | number)[] = [];
  let expectsKey = false;
  const isHere = () => steps.length === path.length && steps.every((step, index) => step === path[index]);
  if (path.length === 0) return positionIn(json, json.search(/\S/));
  for (const { 0: token, index: at } of json.matchAll(TOKEN)) {
    const isElement = typeof steps.at(-1) === 'number' && !expectsKey && !/[\]},:]/.test(token.charAt(0));
    if (isElement && isHere()) return positionIn(json, at);
    if (token === '{') {
      steps.push('');
      expectsKey = true;
    } else if (token === '[') {
      steps.push(0);
      expectsKey = false;
    } else if (token === '}' || token === ']') {
      steps.pop();
      expectsKey = false;
    } else if (token === ',') {
      const last = steps.at(-1);
      expectsKey = typeof last !== 'number';
      if (typeof last === 'number') steps[steps.length - 1] = last + 1;
    } else if (expectsKey) {
      steps[steps.length - 1] = JSON.parse(token) as string;
      expectsKey = false;
      if (isHere()) return positionIn(json, at);
    }
  }
  return undefined;
}

/** From 1, as editors count. */
export function positionIn(text: string, at: number): TextPlace {
  const before = text.slice(0, Math.max(0, at));
  const line = before.split('\n').length;
  return { line, column: before.length - before.lastIndexOf('\n') };
}
