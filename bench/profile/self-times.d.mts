interface Profile {
  nodes: readonly {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number; columnNumber: number };
  }[];
  samples: readonly number[];
  timeDeltas: readonly number[];
}
export function selfTimes(
  profile: Profile,
  options: { lines: number; calls: number },
): {
  usPerCall: number;
  modules: { name: string; share: number; us: number }[];
  lines: { name: string; file: string; share: number; us: number }[];
};
