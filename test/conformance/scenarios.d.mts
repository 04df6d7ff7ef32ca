export const SCENARIOS: Readonly<Record<string, object>>;
