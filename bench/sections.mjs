// What there is to measure, in the order of the results. `targets` says which promises the figures keep.

import { measureGrowth } from './cost/growth.mjs';
import { measureMemory } from './cost/memory.mjs';
import { growthPage, growthPlots, growthTargets, memoryPage, memoryTargets } from './cost/page.mjs';
import { measureCpu } from './cpu/cells.mjs';
import { cpuPage, cpuPlots, cpuTargets } from './cpu/page.mjs';
import { measureGates } from './gates.mjs';
import { measureImports } from './imports.mjs';
import { gatesPage, importsPage, rateLimitPage, thousandPage } from './pages.mjs';
import { profilePage } from './profile/page.mjs';
import { measureProfile } from './profile/profile.mjs';
import { measureRateLimit } from './rate-limit.mjs';
import { measureLoss } from './recovery/loss.mjs';
import { recoveryPage, recoveryTargets, refreshPage, refreshTargets } from './recovery/page.mjs';
import { measureRefresh } from './recovery/refresh.mjs';
import { measureTokenChange } from './recovery/token-change.mjs';
import { thousandCallers } from './thousand.mjs';

export const SECTIONS = [
  {
    name: 'cpu',
    title: 'Client CPU and wall time per call',
    measure: (port, options) => measureCpu(port, options),
    page: cpuPage,
    plots: cpuPlots,
    targets: cpuTargets,
  },
  {
    name: 'recovery',
    title: 'From the loss of a session to the next answered call',
    async measure(_port, { say }) {
      say('session loss');
      const loss = await measureLoss();
      say('token changes');
      return { loss, tokenChange: await measureTokenChange() };
    },
    page: recoveryPage,
    targets: recoveryTargets,
  },
  {
    name: 'refresh',
    title: 'Calls in the second after a refresh',
    async measure(port, options) {
      options.say('calls around refreshes');
      return measureRefresh(port, options);
    },
    page: refreshPage,
    targets: refreshTargets,
  },
  {
    name: 'memory',
    title: 'A thousand idle sessions, ten thousand calls at once',
    measure: measureMemory,
    page: memoryPage,
    targets: memoryTargets,
  },
  {
    name: 'growth',
    title: 'Cost against sessions, tools and calls in flight',
    measure: measureGrowth,
    page: growthPage,
    plots: growthPlots,
    targets: growthTargets,
  },
  {
    name: 'gates',
    title: 'What an allow-list, a cap and an audit in a file add',
    measure: (port, { rounds, calls, say }) =>
      measureGates(port, { rounds, calls: Math.ceil(1_500 * calls), say }),
    page: gatesPage,
  },
  {
    name: 'rate-limit',
    title: 'What a rate limit of our own adds',
    async measure(port, { say }) {
      say('what a rate limit adds');
      return measureRateLimit(port);
    },
    page: rateLimitPage,
  },
  {
    name: 'thousand',
    title: '1,000 callers at the expiry of a token their session is bound to',
    async measure(_port, { say }) {
      say('1,000 callers at the expiry of their token');
      return thousandCallers();
    },
    page: thousandPage,
  },
  {
    name: 'imports',
    title: 'Import times',
    async measure(_port, { say }) {
      say('import times');
      return measureImports();
    },
    page: importsPage,
  },
  {
    name: 'profile',
    title: 'Where the CPU of a call goes',
    measure: measureProfile,
    page: profilePage,
  },
];
