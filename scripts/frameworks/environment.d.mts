export function plainEnvironment(): Record<string, string | undefined>;
