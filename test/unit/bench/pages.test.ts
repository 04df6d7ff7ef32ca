/** How the benchmark's figures are written down. */
import { describe, expect, it } from 'vitest';
import { figure, percent, ratio, table } from '../../../bench/kit/markdown.mjs';
import { groupedBars, logLines } from '../../../bench/kit/svg.mjs';

/** `[{ name of the attribute: value }]` of each element of that name. */
function elements(svg: string, name: string): Record<string, string>[] {
  return [...svg.matchAll(new RegExp(`<${name} ([^>]*?)/?>`, 'g'))].map(([, attributes = '']) =>
    Object.fromEntries([...attributes.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, key, value]) => [key, value])),
  );
}

describe('a table', () => {
  it('has as many columns in each line, and a dash where there is no figure', () => {
    expect(
      table(
        ['a', 'b'],
        [
          [1, undefined],
          ['x', 0],
        ],
      ),
    ).toBe('| a | b |\n|---|---|\n| 1 | - |\n| x | 0 |');
  });

  it('is not broken by what a cell says', () => {
    expect(table(['a'], [['one|two\nthree']]).split('\n')).toEqual(['| a |', '|---|', '| one\\|two three |']);
  });

  it('says nothing of figures that are none', () => {
    expect([figure(undefined), figure(Number.NaN), ratio(1 / 0), percent(Number.NaN)]).toEqual(
      Array(4).fill(undefined),
    );
    expect([figure(1234.6), figure(0.36), figure(7), ratio(1.005), percent(0.125, 1)]).toEqual([
      '1,235',
      '0.4',
      '7',
      '1.00x',
      '12.5 %',
    ]);
  });
});

describe('a plot of bars', () => {
  const plot = (cap?: number) =>
    groupedBars({
      title: 'A <title> & more',
      xLabel: 'cell',
      yLabel: 'CPU',
      series: ['one', 'two'],
      groups: [
        { label: 'small', values: { one: 10, two: 20 } },
        { label: 'large', values: { one: 40 } },
      ],
      cap,
    });
  const bars = (svg: string) =>
    elements(svg, 'rect').filter(({ x, fill, width }) => x && fill && width !== '12');

  it('has a bar for each value, as high as the value', () => {
    const [ten = {}, twenty = {}, forty = {}, ...others] = bars(plot());
    expect(others).toEqual([]);
    expect(Number(twenty.height) / Number(ten.height)).toBeCloseTo(2, 2);
    expect(Number(forty.height) / Number(ten.height)).toBeCloseTo(4, 2);
    // All stand on the axis.
    expect(
      new Set([ten, twenty, forty].map(({ y, height }) => Math.round(Number(y) + Number(height)))).size,
    ).toBe(1);
    expect(ten.fill).toBe(forty.fill);
    expect(ten.fill).not.toBe(twenty.fill);
  });

  it('marks what is cut off at the cap', () => {
    const svg = plot(20);
    const [, twenty = {}, forty = {}] = bars(svg);
    expect(forty.height).toBe(twenty.height);
    expect(svg).toContain('>40↑<');
    expect(plot()).not.toContain('↑');
  });

  it('names its axes and series, and cannot be broken by a name', () => {
    const svg = plot();
    for (const text of ['>cell<', '>CPU<', '>one<', '>two<', '>small<', 'A &lt;title&gt; &amp; more'])
      expect(svg).toContain(text);
    expect(svg).not.toContain('<title> &');
  });

  it('can be read on a dark page: everything but the bars takes its colour from the style', () => {
    const svg = plot();
    expect(svg).toContain('prefers-color-scheme: dark');
    for (const { class: of } of elements(svg, 'text')) expect(of).toMatch(/\b(ink|faint)\b/);
  });
});

describe('a plot of lines', () => {
  const plot = logLines({
    title: 'Growth',
    xLabel: 'size',
    yLabel: 'cost',
    series: [
      {
        name: 'linear',
        points: [
          [1, 2],
          [10, 20],
          [100, 200],
        ],
      },
    ],
    guideAt: 1,
  });

  it('draws linear growth as a straight line, and the guide along it', () => {
    const [a = {}, b = {}, c = {}] = elements(plot, 'circle');
    const slope = (from: Record<string, string>, to: Record<string, string>) =>
      (Number(to.cy) - Number(from.cy)) / (Number(to.cx) - Number(from.cx));
    expect(slope(a, b)).toBeCloseTo(slope(b, c), 2);
    const guide = elements(plot, 'path').find(({ class: of }) => of === 'guide')?.d ?? '';
    expect(guide).toContain(`M${b.cx} ${b.cy}`);
    expect(guide).toContain(`L${c.cx} ${c.cy}`);
  });

  it('fills no path: an axis with a corner would cover the plot', () => {
    expect(plot).toContain('path { fill: none }');
    for (const { fill } of elements(plot, 'path')) expect(fill).toBeUndefined();
  });

  it('has powers of ten on its axes', () => {
    for (const tick of ['>1<', '>10<', '>100<', '>1000<']) expect(plot).toContain(tick);
  });
});
