import { transform } from 'esbuild';
import { defineConfig, type Options } from 'tsup';

/** Turns a chunk built as ESM into CommonJS: one copy of each class across entries, `import()` as a lazy `require()`. */
const toCommonJs: NonNullable<Options['plugins']>[number] = {
  name: 'chunks-to-commonjs',
  async renderChunk(code) {
    const out = await transform(code, {
      format: 'cjs',
      platform: 'node',
      target: 'node20',
      sourcemap: 'external',
      // jest refuses a real import() without a flag.
      supported: { 'dynamic-import': false },
    });
    return { code: out.code, map: out.map };
  },
};

const common: Options = {
  entry: {
    index: 'src/index.ts',
    client: 'src/client.ts',
    gates: 'src/gates/index.ts',
    loopback: 'src/loopback/index.ts',
    otel: 'src/otel/index.ts',
    redis: 'src/redis/index.ts',
    relay: 'src/relay/index.ts',
    testing: 'src/testing/index.ts',
  },
  target: 'node20',
  platform: 'node',
  format: 'esm',
  splitting: true,
  sourcemap: true,
  silent: true,
  // Bundlers that leave modules of Node out know them by that prefix: see "browser" in package.json.
  removeNodeProtocol: false,
};

export default defineConfig([
  // The command is ESM alone: nobody imports it.
  { ...common, entry: { ...(common.entry as Record<string, string>), cli: 'src/cli/index.ts' } },
  {
    ...common,
    outExtension: () => ({ js: '.cjs' }),
    // ESM-only packages: jest cannot require them, so the CommonJS build carries them.
    noExternal: [/^(p-retry|is-network-error|openid-client|oauth4webapi|jose)(\/|$)/],
    plugins: [toCommonJs],
  },
  { ...common, format: ['esm', 'cjs'], dts: { only: true } },
]);
