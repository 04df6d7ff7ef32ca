// What the fleet has shown, as a page.

export function fleetPage({ date, machine, versions, rows }) {
  const broken = rows.filter(({ claims }) => claims.some(({ holds }) => !holds)).length;
  return `# A fleet of replicas

${date}: ${machine}. ${broken === 0 ? 'Every promise was kept.' : `${broken} of ${rows.length} scenarios broke a promise.`}
\`npm run fleet\` makes this page.

${versions.map(([name, version]) => `${name} ${version}`).join(' · ')}

Replicas are processes of their own, with ioredis 5, node-redis and ioredis 6 in turn. The server is one more process: it
stamps every request to its endpoint on one clock, and refuses nothing. "Jitter": each request is kept back by up to so
much after it was let go. A window of the server is what was configured; the library keeps one that is longer by 250 ms
or 2 %, whichever is more, and usage is of that. Where a process was kept from running for longer, the limit is judged
without that time, and the raw count is given as well.

${table(
  ['scenario', 'parameters', 'figures', 'verdict'],
  rows.map(({ name, parameters, figures, claims }) => [
    name,
    parameters,
    Object.entries(figures)
      .map(([what, figure]) => `${what}: ${figure}`)
      .join('; '),
    claims.every(({ holds }) => holds) ? 'held' : 'BROKEN',
  ]),
)}

${rows.map(section).join('\n\n')}
`;
}

function section({ name, claims }) {
  const lines = claims.map(
    ({ text, holds, found }) => `- ${holds ? 'holds' : 'BROKEN'}: ${text} (${oneLine(found)})`,
  );
  return `## ${name}\n\n${lines.join('\n')}`;
}

function table(head, rows) {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.map(oneLine).join(' | ')} |`).join('\n');
}

function oneLine(text) {
  return String(text).replace(/\s+/g, ' ').replaceAll('|', '\\|');
}
