/**
 * Lets the official suite start on Node 20.
 *
 * Its bundle imports `globSync`, which `node:fs` has from Node 22 on, for a command that is not used here. Only
 * that bundle's own import of `fs` is answered differently, and only where the function is missing.
 */
import * as fs from 'node:fs';
import { register } from 'node:module';

const asModule = (source) => `data:text/javascript,${encodeURIComponent(source)}`;

if (typeof fs.globSync !== 'function') {
  const completed = asModule(`
    export * from 'node:fs';
    export { default } from 'node:fs';
    export function globSync() { throw new Error('globSync needs Node 22'); }
  `);
  register(
    asModule(`
      export function resolve(specifier, context, next) {
        const isSuite = (context.parentURL ?? '').includes('/@modelcontextprotocol/conformance/dist/');
        const isFs = specifier === 'fs' || specifier === 'node:fs';
        return isSuite && isFs ? { url: ${JSON.stringify(completed)}, shortCircuit: true } : next(specifier, context);
      }
    `),
  );
}
