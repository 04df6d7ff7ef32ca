// Sections of the results that are a table and a sentence.
import { figure, ratio, table } from './kit/markdown.mjs';

export function gatesPage(rows) {
  return `${table(
    [
      'answer, concurrent',
      'without, µs',
      'with allow-list and cap, µs',
      'and with the audit, µs',
      'all of them add',
      'with an audit that is required, µs',
      'all of them add',
    ],
    rows.map(({ cell, none, gates, all, added, required, requiredAdded }) => [
      cell,
      figure(none),
      figure(gates),
      figure(all),
      `${(added * 100).toFixed(0)} %`,
      figure(required),
      `${(requiredAdded * 100).toFixed(0)} %`,
    ]),
  )}

The shares are medians of the rounds' own ratios. An audit gathers the lines of 10 ms; one that is required writes each before its
call's caller hears of the end.`;
}

export function rateLimitPage(found) {
  const us = (value) => `${Math.round(value)}`;
  const signed = (value) => `${value < 0 ? '' : '+'}${Math.round(value)}`;
  const { memoryTake, ping, redisTake, call, callMemory, callRedis, callPing } = found;
  return `Medians of one after the other, alternating rounds, microseconds: asking the memory store ${memoryTake.toFixed(1)}; a bare PING over Redis
on loopback ${us(ping)}, asking the Redis store ${us(redisTake)} (${ratio(redisTake / ping)} a PING). A whole call without a limit ${us(call)}, with one
in memory ${us(callMemory)} (${signed(callMemory - call)}), with one in Redis ${us(callRedis)} (${signed(callRedis - call)}),
without one and after a bare PING ${us(callPing)} (${signed(callPing - call)}).`;
}

export function thousandPage(found) {
  const { answered, executedOnce, executedTwice, tokenRequests, probes, initializes, ms } = found;
  return `Counted at the server: ${answered} answered, ${executedOnce} tools run once, ${executedTwice} twice; ${tokenRequests} token request, ${probes} probe, ${initializes} initialize. ${ms} ms in all.`;
}

export function importsPage(times) {
  const each = Object.entries(times).map(([name, ms]) => `\`${name}\` ${ms} ms`);
  return `${each.join(', ')}.`;
}
