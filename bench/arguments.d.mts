export interface BenchArguments {
  only: string[];
  contenders: string[];
  answers: string[];
  concurrency: string[];
  rounds: number;
  calls: number;
  noWrite: boolean;
  quick?: boolean;
  json?: boolean;
  help?: boolean;
}
export function readArguments(
  args: readonly string[],
  choices: { only: readonly string[]; contenders: readonly string[] },
): BenchArguments;
export function cellFilter(
  given: Pick<BenchArguments, 'answers' | 'concurrency'>,
): (kind: string, size: string, atOnce: number) => boolean;
