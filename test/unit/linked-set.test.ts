import { describe, expect, it } from 'vitest';
import { type Linked, LinkedSet } from '../../src/linked-set.js';

interface Item extends Linked<Item> {
  name: string;
}

const item = (name: string): Item => ({ name, previous: undefined, next: undefined, isLinked: false });
const names = (set: LinkedSet<Item>) => set.all().map(({ name }) => name);

describe('a linked set', () => {
  it('keeps the order of adding, whatever is taken out', () => {
    const items = ['a', 'b', 'c', 'd'].map(item) as [Item, Item, Item, Item];
    const set = new LinkedSet<Item>();
    for (const each of items) set.add(each);
    expect([names(set), set.size]).toEqual([['a', 'b', 'c', 'd'], 4]);
    expect(set.delete(items[1])).toBe(true);
    expect(names(set)).toEqual(['a', 'c', 'd']);
    expect(set.delete(items[0])).toBe(true);
    expect(names(set)).toEqual(['c', 'd']);
    expect(set.delete(items[3])).toBe(true);
    set.add(items[0]);
    expect([names(set), set.size]).toEqual([['c', 'a'], 2]);
    set.delete(items[2]);
    set.delete(items[0]);
    expect([names(set), set.size]).toEqual([[], 0]);
    set.add(items[1]);
    expect(names(set)).toEqual(['b']);
  });

  it('holds nothing twice, and takes nothing out twice', () => {
    const set = new LinkedSet<Item>();
    const only = item('a');
    set.add(only);
    set.add(only);
    expect(set.size).toBe(1);
    expect([set.delete(only), set.delete(only)]).toEqual([true, false]);
    expect(set.size).toBe(0);
  });

  it('what was taken out keeps no other alive', () => {
    const set = new LinkedSet<Item>();
    const items = ['a', 'b', 'c'].map(item) as [Item, Item, Item];
    for (const each of items) set.add(each);
    set.delete(items[1]);
    expect([items[1].previous, items[1].next]).toEqual([undefined, undefined]);
  });

  it('may lose items while it is walked', () => {
    const set = new LinkedSet<Item>();
    for (const name of ['a', 'b', 'c']) set.add(item(name));
    for (const each of set.all()) set.delete(each);
    expect(set.size).toBe(0);
  });
});
