/**
 * A set of what is under way, which changes with every call.
 *
 * Guarantees that adding and removing make no garbage, and that what was removed keeps nothing alive. (A `Set` or `Map`
 * makes its table anew every few changes, and V8 lets each old table hold the next one: a process with many calls then
 * keeps every ended call until the next full collection.) Never holds an item twice; an item is in one such set only.
 */

/** What an item brings: its neighbours. The set's own business. */
export interface Linked<T> {
  previous: T | undefined;
  next: T | undefined;
  isLinked: boolean;
}

export class LinkedSet<T extends Linked<T>> {
  #first: T | undefined;
  #last: T | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(item: T): void {
    if (item.isLinked) return;
    item.isLinked = true;
    item.previous = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.next = item;
    this.#last = item;
    this.#size += 1;
  }

  /** False where it was not in it. */
  delete(item: T): boolean {
    if (!item.isLinked) return false;
    const { previous, next } = item;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    item.previous = undefined;
    item.next = undefined;
    item.isLinked = false;
    this.#size -= 1;
    return true;
  }

  /** A copy, in the order of adding: items may go while it is walked. */
  all(): T[] {
    const items: T[] = [];
    for (let item = this.#first; item !== undefined; item = item.next) items.push(item);
    return items;
  }
}
