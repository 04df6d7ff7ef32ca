export const MODULES: readonly { readonly file: string; readonly tests: readonly string[] }[];
