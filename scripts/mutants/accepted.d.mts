export const ACCEPTED: Readonly<Record<string, Readonly<Record<string, string>>>>;
