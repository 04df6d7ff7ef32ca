// Which modules are mutated, and which tests are meant to tell: the quick ones first, then those over the wire.
// A test file stands here only where it judges what the module decides.
const unit = (...names) => names.map((name) => `test/unit/${name}.test.ts`);
const wire = (...names) => names.map((name) => `test/wire/${name}.test.ts`);
const faces = (...names) => names.map((name) => `test/faces/${name}.test.ts`);

const LOSS = wire(
  'h01-session-lost-404',
  'h02-session-lost-otherwise',
  'h03-error-in-session',
  'h04-session-bound-to-token',
  'h22-refusal-without-id',
  'h33-gateway-and-ping',
  'h34-no-affinity',
  'h35-set-up',
);

export const MODULES = [
  {
    // A pure function: what a table of its facts cannot tell, nothing can.
    file: 'src/connection/classify.ts',
    tests: unit('connection/classify', 'connection/classify-edges'),
  },
  {
    file: 'src/connection/ledger.ts',
    tests: [
      ...unit('connection/ledger', 'connection/ledger-edges'),
      ...wire('answer-elsewhere', 'h31-late-answer', 'h29-run-then-refused', 'h16-pause-for-all'),
      ...faces('client-session', 'transport-v1'),
    ],
  },
  {
    file: 'src/session/keeper.ts',
    tests: [
      ...unit('session/keeper', 'session/keeper-doubt'),
      ...LOSS,
      ...wire('h17-odd-handshake-answers', 'h32-refresh-under-a-call', 'legacy-loss'),
      ...faces('client-session'),
    ],
  },
  {
    file: 'src/session/breaker.ts',
    tests: unit('session/breaker', 'session/breaker-edges'),
  },
  {
    file: 'src/credentials/refresher.ts',
    tests: [
      ...unit('credentials/refresher', 'credentials/refresher-edges', 'credentials/shared-store'),
      ...unit('credentials/lease-and-clock'),
    ],
  },
  {
    file: 'src/credentials/renewal.ts',
    tests: [
      ...unit('credentials/renewal-steps', 'credentials/renewal-edges', 'credentials/shared-store'),
      ...unit('credentials/lease-and-clock', 'credentials/refresher', 'credentials/refresher-edges'),
    ],
  },
];
