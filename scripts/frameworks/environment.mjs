// What a process of another folder may know of this one.

/** Where packages come from, and no more: the rest that npm tells its children is about the project it was run in. */
const KEPT = /^npm_config_(registry|cache|userconfig|globalconfig|(https?_|no)?proxy|cafile)$/i;

export function plainEnvironment() {
  const entries = Object.entries(process.env);
  return Object.fromEntries(
    entries.filter(([name]) => KEPT.test(name) || !/^(npm_|HOLDFAST_|INIT_CWD$)/i.test(name)),
  );
}
