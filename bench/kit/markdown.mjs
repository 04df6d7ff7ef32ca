// Tables and figures of a page.

/** `rows` of cells under `head`; a cell without a figure is a dash. */
export function table(head, rows) {
  const line = (cells) => `| ${cells.map((cell) => cellText(cell)).join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

/** Whole numbers with thousands apart, below ten with one decimal place. */
export function figure(value) {
  if (!isFigure(value)) return undefined;
  return Math.abs(value) < 10 && !Number.isInteger(value)
    ? value.toFixed(1)
    : Math.round(value).toLocaleString('en-GB');
}

export function ratio(value) {
  return isFigure(value) ? `${value.toFixed(2)}x` : undefined;
}

export function percent(share, digits = 0) {
  return isFigure(share) ? `${(share * 100).toFixed(digits)} %` : undefined;
}

function isFigure(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

function cellText(cell) {
  const text = cell === undefined || cell === null ? '' : String(cell);
  return text === '' ? '-' : text.replace(/\|/g, '\\|').replace(/\s+/g, ' ');
}
