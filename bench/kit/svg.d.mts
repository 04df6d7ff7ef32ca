export function groupedBars(plot: {
  title: string;
  xLabel: string;
  yLabel: string;
  series: readonly string[];
  groups: readonly { label: string; values: Readonly<Record<string, number | undefined>> }[];
  cap?: number | undefined;
  format?: ((value: number) => string) | undefined;
}): string;
export function logLines(plot: {
  title: string;
  xLabel: string;
  yLabel: string;
  series: readonly { name: string; points: readonly (readonly [x: number, y: number])[] }[];
  guideAt?: number | undefined;
  format?: ((value: number) => string) | undefined;
}): string;
