// Plots as SVG text: grouped bars and lines on logarithmic axes, readable on light and on dark pages.

/** Told apart by those who do not see all colours, too (Okabe and Ito). */
const COLOURS = ['#7f7f7f', '#0072b2', '#56b4e9', '#d55e00', '#e69f00', '#009e73', '#cc79a7'];
const WIDTH = 960;
const TOP = 78;
const LEFT = 72;
const RIGHT = 36;
const BOTTOM = 62;
const STYLE = `
  .page { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #59636e }
  path { fill: none } .axis { stroke: #59636e; stroke-width: 1 } .grid { stroke: #d1d9e0; stroke-width: 1 }
  .line { stroke-width: 2.5 } .guide { stroke: #59636e; stroke-width: 1; stroke-dasharray: 5 5 }
  text { font: 12px system-ui, sans-serif } .title { font-size: 16px; font-weight: 600 } .small { font-size: 10px }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #f0f6fc } .faint { fill: #9198a1 }
    .axis, .guide { stroke: #9198a1 } .grid { stroke: #3d444d }
  }`;

/**
 * `groups` are `{ label, values: { [series]: number } }`, `series` their names in order. Bars above `cap` are cut off there, and
 * marked; every bar has its value above it. A series without a value in a group leaves its place free.
 */
export function groupedBars({ title, yLabel, xLabel, series, groups, cap, format = String }) {
  const height = 440;
  const [plotWidth, plotHeight] = [WIDTH - LEFT - RIGHT, height - TOP - BOTTOM];
  const all = groups.flatMap(({ values }) => Object.values(values)).filter(Number.isFinite);
  const top = niceAbove(Math.min(cap ?? Number.POSITIVE_INFINITY, Math.max(...all)));
  const y = (value) => TOP + plotHeight * (1 - Math.min(value, top) / top);
  const parts = [];
  for (const tick of [0, 0.25, 0.5, 0.75, 1].map((share) => share * top))
    parts.push(gridLine(y(tick), format(tick)));
  const groupWidth = plotWidth / groups.length;
  const barWidth = (groupWidth * 0.86) / series.length;
  for (const [at, { label, values }] of groups.entries()) {
    const from = LEFT + at * groupWidth + groupWidth * 0.07;
    for (const [index, name] of series.entries()) {
      const value = values[name];
      if (!Number.isFinite(value)) continue;
      const [x, barTop] = [from + index * barWidth, y(value)];
      const middle = x + barWidth / 2;
      parts.push(
        `<rect x="${n(x)}" y="${n(barTop)}" width="${n(barWidth * 0.9)}" height="${n(TOP + plotHeight - barTop)}" fill="${COLOURS[index % COLOURS.length]}"><title>${escaped(`${name}, ${label}: ${format(value)}`)}</title></rect>`,
        text({
          x: middle,
          y: barTop - 4,
          label: `${format(value)}${value > top ? '↑' : ''}`,
          of: 'ink small',
        }),
      );
    }
    parts.push(text({ x: from + groupWidth * 0.43, y: height - BOTTOM + 18, label, of: 'ink' }));
  }
  return page({ height, title, xLabel, yLabel, series, parts });
}

/**
 * `series` are `{ name, points: [[x, y], ...] }`, all above 0, on logarithmic axes. From the point `guideAt` of each a dashed line shows
 * what linear growth would be.
 */
export function logLines({ title, xLabel, yLabel, series, guideAt, format = String }) {
  const height = 440;
  const [plotWidth, plotHeight] = [WIDTH - LEFT - RIGHT, height - TOP - BOTTOM];
  const points = series.flatMap((each) => each.points);
  const [xFrom, xTo] = decades(points.map(([x]) => x));
  const [yFrom, yTo] = decades(points.map(([, y]) => y));
  const share = (value, from, to) => (Math.log10(value) - from) / (to - from);
  const x = (value) => LEFT + plotWidth * share(value, xFrom, xTo);
  const y = (value) => TOP + plotHeight * (1 - share(value, yFrom, yTo));
  const parts = [];
  for (let power = yFrom; power <= yTo; power += 1) parts.push(gridLine(y(10 ** power), format(10 ** power)));
  for (let power = xFrom; power <= xTo; power += 1)
    parts.push(text({ x: x(10 ** power), y: height - BOTTOM + 18, label: format(10 ** power), of: 'faint' }));
  for (const [index, { name, points: own }] of series.entries()) {
    const colour = COLOURS[(index + 1) % COLOURS.length];
    const guide = guideAt === undefined ? undefined : own[guideAt];
    const end = own.at(-1);
    if (guide !== undefined) {
      const linear = Math.min((guide[1] * end[0]) / guide[0], 10 ** yTo);
      parts.push(
        `<path class="guide" d="M${n(x(guide[0]))} ${n(y(guide[1]))} L${n(x((guide[0] * linear) / guide[1]))} ${n(y(linear))}"/>`,
      );
    }
    const path = own.map(([px, py], at) => `${at === 0 ? 'M' : 'L'}${n(x(px))} ${n(y(py))}`).join(' ');
    parts.push(`<path class="line" stroke="${colour}" d="${path}"/>`);
    for (const [px, py] of own)
      parts.push(
        `<circle cx="${n(x(px))}" cy="${n(y(py))}" r="4" fill="${colour}"><title>${escaped(`${name}, ${format(px)}: ${format(py)}`)}</title></circle>`,
      );
  }
  return page({ height, title, xLabel, yLabel, series: series.map(({ name }) => name), from: 1, parts });
}

function page({ height, title, xLabel, yLabel, series, parts, from = 0 }) {
  const bottom = height - BOTTOM;
  const legend = [];
  let at = LEFT;
  for (const [index, name] of series.entries()) {
    legend.push(
      `<rect x="${n(at)}" y="42" width="12" height="12" fill="${COLOURS[(index + from) % COLOURS.length]}"/>`,
      text({ x: at + 17, y: 52, label: name, of: 'ink', anchor: 'start' }),
    );
    at += 34 + name.length * 7;
  }
  const middle = (TOP + bottom) / 2;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}\n</style>`,
    `<rect class="page" width="${WIDTH}" height="${height}"/>`,
    text({ x: LEFT, y: 26, label: title, of: 'ink title', anchor: 'start' }),
    ...legend,
    ...parts,
    `<path class="axis" d="M${LEFT} ${TOP} V${bottom} H${WIDTH - RIGHT}"/>`,
    text({ x: (LEFT + WIDTH - RIGHT) / 2, y: height - 16, label: xLabel, of: 'faint' }),
    `<text class="faint" text-anchor="middle" transform="translate(16 ${n(middle)}) rotate(-90)">${escaped(yLabel)}</text>`,
    '</svg>',
    '',
  ].join('\n');
}

function gridLine(y, label) {
  return [
    `<path class="grid" d="M${LEFT} ${n(y)} H${WIDTH - RIGHT}"/>`,
    text({ x: LEFT - 8, y: y + 4, label, of: 'faint', anchor: 'end' }),
  ].join('\n');
}

function text({ x, y, label, of, anchor = 'middle' }) {
  return `<text class="${of}" x="${n(x)}" y="${n(y)}" text-anchor="${anchor}">${escaped(label)}</text>`;
}

function decades(values) {
  const from = Math.floor(Math.log10(Math.min(...values)));
  return [from, Math.max(from + 1, Math.ceil(Math.log10(Math.max(...values))))];
}

function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

function n(value) {
  return String(Math.round(value * 10) / 10);
}

function escaped(label) {
  return String(label)
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;');
}
