import { type Channel, subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { PublishedEvents } from '../../../src/connection/diagnostics.js';
import { EVENT_NAMES } from '../../../src/connection/log.js';
import type { ConnectionEvents } from '../../../src/connection/types.js';

const EXCHANGE: ConnectionEvents['exchange'] = { method: 'ping', sent: true, bytes: 2, durationMs: 3 };
const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
  vi.unstubAllGlobals();
  vi.resetModules();
});

function listen(event: string): [message: unknown, name: string | symbol][] {
  const heard: [unknown, string | symbol][] = [];
  const listener = (message: unknown, name: string | symbol) => void heard.push([message, name]);
  subscribe(`mcp-holdfast:${event}`, listener);
  open.push(() => void unsubscribe(`mcp-holdfast:${event}`, listener));
  return heard;
}

describe('PublishedEvents', () => {
  it.each([
    ['https://user:pw@mcp.example.com/a/mcp?key=secret#x', 'https://mcp.example.com/a/mcp'],
    ['http://[::1]:8080/', 'http://[::1]:8080/'],
    ['stdio:node', 'stdio:node'],
  ])('%s: messages say where they come from without user, query and fragment', (url, server) => {
    const heard = listen('exchange');
    const events = new PublishedEvents();
    events.comeFrom(new URL(url));
    events.emit('exchange', EXCHANGE);
    expect(heard).toEqual([[{ ...EXCHANGE, server }, 'mcp-holdfast:exchange']]);
    expect(EXCHANGE).not.toHaveProperty('server');
  });

  it('a payload is wanted when somebody listens, on the channel or here, and not before or after', () => {
    const events = new PublishedEvents();
    expect(events.wants('call')).toBe(false);
    listen('call');
    expect(events.wants('call')).toBe(true);
    expect(events.wants('exchange')).toBe(false);
    open.splice(0).forEach((close) => {
      close();
    });
    expect(events.wants('call')).toBe(false);
    events.on('call', () => {});
    expect(events.wants('call')).toBe(true);
  });

  it('nothing is made or published where nobody listens', () => {
    const publish = vi.fn();
    let asked = 0;
    const silent = {
      get hasSubscribers() {
        asked += 1;
        return false;
      },
      publish,
    } as unknown as Channel;
    const events = new PublishedEvents(new Map([['exchange', silent] as const]));
    const payload = new Proxy(EXCHANGE, {
      ownKeys() {
        throw new Error('copied');
      },
    });
    events.emit('exchange', payload);
    expect(asked).toBe(1);
    expect(publish).not.toHaveBeenCalled();
  });

  it('after close() nothing is published any more', () => {
    const heard = listen('exchange');
    const events = new PublishedEvents();
    events.close();
    events.emit('exchange', EXCHANGE);
    expect(heard).toEqual([]);
    expect(events.wants('exchange')).toBe(false);
  });

  it('there is a channel for every kind of event', () => {
    const events = new PublishedEvents();
    const heard = EVENT_NAMES.map((event) => [event, listen(event)] as const);
    for (const event of EVENT_NAMES) events.emit(event, { about: event } as never);
    for (const [event, messages] of heard)
      expect(messages).toEqual([[{ about: event, server: '' }, `mcp-holdfast:${event}`]]);
  });

  it.each([
    ['no process', undefined],
    ['no way to built-in modules', {}],
    ['no such module', { getBuiltinModule: () => undefined }],
    ['another module', { getBuiltinModule: () => ({ channel: 'no' }) }],
  ])('a runtime with %s lacks the channels alone', async (_name, process) => {
    const heard = listen('exchange');
    vi.stubGlobal('process', process);
    vi.resetModules();
    const fresh = await import('../../../src/connection/diagnostics.js');
    vi.unstubAllGlobals();
    const events = new fresh.PublishedEvents();
    const here: unknown[] = [];
    events.on('exchange', (event) => here.push(event));
    events.emit('exchange', EXCHANGE);
    expect(here).toEqual([EXCHANGE]);
    expect(heard).toEqual([]);
  });
});
