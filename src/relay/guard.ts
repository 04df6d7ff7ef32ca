/**
 * A small process of its own that outlives this one by a moment, to end what this one has started.
 *
 * Guarantees that with the end of this process, SIGKILL included, the process group it watches ends, and every
 * process that carries its mark. Knows no secret: it gets a number and a mark, and no variable but PATH. POSIX only.
 */
import { type ChildProcess, spawn } from 'node:child_process';

/**
 * `read` fails when the pipe has no writer any more, which is this process's end. Looks again until a round finds
 * nobody, for what is being ended may be starting others.
 */
const SCRIPT = `
group=
while read -r word id; do
  case $word in
    watch) group=$id ;;
    free) group= ;;
    done) exit 0 ;;
  esac
done
[ -n "$group" ] && kill -s KILL -- "-$group" 2>/dev/null
round=0
while [ $round -lt 100 ]; do
  round=$((round + 1))
  found=
  for file in $(grep -lsF -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
    id=\${file#/proc/}
    kill -s KILL "\${id%/environ}" 2>/dev/null && found=1
  done
  [ -n "$found" ] || break
done
`;

export class Guard {
  readonly #mark: string;
  readonly #onMissing: () => void;
  #process: ChildProcess | undefined;
  #watched: number | undefined;

  /** `onMissing`: there is no shell to run it; the end of this process will have to do. */
  constructor(mark: string, onMissing: () => void) {
    this.#mark = mark;
    this.#onMissing = onMissing;
  }

  /** The guard's own process, while there is one. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Starts it where there is none: before what it is to watch, so that there is no gap. */
  start(): void {
    if (this.#process !== undefined || process.platform === 'win32') return;
    const guard = spawn('/bin/sh', ['-c', SCRIPT, 'mcp-holdfast-guard', this.#mark], {
      // A session of its own: what ends our process group does not end it.
      detached: true,
      env: { PATH: '/usr/bin:/bin' },
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    this.#process = guard;
    guard.on('error', () => {
      if (guard.pid === undefined) this.#onMissing();
      this.#gone(guard);
    });
    guard.on('exit', () => this.#gone(guard));
    guard.stdin?.on('error', () => {});
    // It must not keep this process alive; the pipe ends with it.
    guard.unref();
    (guard.stdin as { unref?(): void } | null)?.unref?.();
  }

  watch(group: number): void {
    this.#watched = group;
    this.start();
    this.#say(`watch ${group}`);
  }

  /** The group has ended: its number may be another's soon. */
  free(): void {
    this.#watched = undefined;
    this.#say('free -');
  }

  stop(): void {
    const guard = this.#process;
    this.#watched = undefined;
    this.#process = undefined;
    guard?.stdin?.end('done -\n');
  }

  #say(line: string): void {
    this.#process?.stdin?.write(`${line}\n`);
  }

  /** Somebody has ended it: the next one takes over. */
  #gone(guard: ChildProcess): void {
    if (this.#process !== guard) return;
    this.#process = undefined;
    if (this.#watched !== undefined && guard.pid !== undefined) this.watch(this.#watched);
  }
}
