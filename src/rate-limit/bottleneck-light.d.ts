/**
 * The part of `bottleneck/light.js` (2.19.5) that is used here: its own types are for the package root, which
 * brings Redis code and an `eval` along.
 */
declare module 'bottleneck/light.js' {
  export default class Bottleneck {
    /** With a reservoir of 0 nothing runs until `incrementReservoir`. */
    constructor(options: { reservoir: number });
    /** Priorities from 0 (first) to 9. */
    schedule<T>(options: { priority: number }, task: () => T | PromiseLike<T>): Promise<T>;
    incrementReservoir(amount: number): Promise<number>;
    /** Rejects the jobs that have not begun, with their timers. */
    stop(options: { dropWaitingJobs: true }): Promise<void>;
    /** Called right before a job stands in the queue, in the same turn. */
    on(event: 'queued', listener: () => void): this;
  }
}
