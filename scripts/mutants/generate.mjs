// Makes the mutants of one source file: each a single small change to its syntax tree, told by where it stands and what
// stands there instead. The same text gives the same mutants, in the order of the text.
import ts from 'typescript';

const { SyntaxKind } = ts;

/** What each of these is changed into. */
const OPERATORS = new Map([
  [SyntaxKind.AmpersandAmpersandToken, ['logic', '||']],
  [SyntaxKind.BarBarToken, ['logic', '&&']],
  [SyntaxKind.LessThanToken, ['boundary', '<=']],
  [SyntaxKind.LessThanEqualsToken, ['boundary', '<']],
  [SyntaxKind.GreaterThanToken, ['boundary', '>=']],
  [SyntaxKind.GreaterThanEqualsToken, ['boundary', '>']],
  [SyntaxKind.EqualsEqualsEqualsToken, ['equality', '!==']],
  [SyntaxKind.ExclamationEqualsEqualsToken, ['equality', '===']],
  [SyntaxKind.PlusToken, ['arithmetic', '-']],
  [SyntaxKind.MinusToken, ['arithmetic', '+']],
  [SyntaxKind.AsteriskToken, ['arithmetic', '/']],
  [SyntaxKind.SlashToken, ['arithmetic', '*']],
  [SyntaxKind.QuestionQuestionEqualsToken, ['assignment', '=']],
  [SyntaxKind.BarBarEqualsToken, ['assignment', '=']],
]);

/** @returns {{ line: number, column: number, rule: string, was: string, now: string, text: string, key: string }[]} */
export function mutantsOf(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
  const found = [];
  const taken = new Set();

  const add = (rule, node, now, shown = now) => {
    const start = node.getStart(source);
    const end = node.getEnd();
    const mark = `${start}-${end}-${now}`;
    if (taken.has(mark)) return;
    taken.add(mark);
    const { line, character } = source.getLineAndCharacterOfPosition(start);
    const was = text.slice(start, end).replace(/\s+/g, ' ');
    found.push({
      start,
      line: line + 1,
      column: character + 1,
      rule,
      was,
      now: shown.replace(/\s+/g, ' '),
      within: nameAround(node, source),
      text: text.slice(0, start) + now + text.slice(end),
    });
  };

  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isImportDeclaration(node)) return;
    conditions(node, add, source);
    operators(node, add, source);
    literals(node, add);
    statements(node, add);
    calls(node, add, source);
    ts.forEachChild(node, visit);
  };
  visit(source);

  found.sort((a, b) => a.start - b.start);
  const counts = new Map();
  return found.map(({ start: _, ...mutant }) => {
    // Lines move with every change of the file: the key of an accepted one says what stands there, and in which part.
    const base = `${mutant.within}: ${mutant.was} → ${mutant.now}`;
    const count = (counts.get(base) ?? 0) + 1;
    counts.set(base, count);
    return { file, ...mutant, key: count === 1 ? base : `${base} (${count})` };
  });
}

/** A condition that is no comparison and no chain of them (these have rules of their own) is negated. */
function conditions(node, add, source) {
  const isChoice = ts.isIfStatement(node) || ts.isWhileStatement(node);
  const condition = isChoice
    ? node.expression
    : ts.isConditionalExpression(node)
      ? node.condition
      : undefined;
  if (condition !== undefined) negate(condition, add, source);
  if (ts.isBinaryExpression(node) && isLogic(node)) {
    negate(node.left, add, source);
    negate(node.right, add, source);
  }
}

function negate(condition, add, source) {
  if (ts.isParenthesizedExpression(condition)) return;
  if (ts.isBinaryExpression(condition) && OPERATORS.has(condition.operatorToken.kind)) return;
  if (ts.isSpreadElement(condition) || ts.isObjectLiteralExpression(condition)) return;
  if (ts.isPrefixUnaryExpression(condition) && condition.operator === SyntaxKind.ExclamationToken) {
    add('negation', condition, condition.operand.getText(source));
  } else add('negation', condition, `!(${condition.getText(source)})`);
}

function isLogic(node) {
  const { kind } = node.operatorToken;
  return kind === SyntaxKind.AmpersandAmpersandToken || kind === SyntaxKind.BarBarToken;
}

function operators(node, add, source) {
  if (!ts.isBinaryExpression(node)) return;
  const { operatorToken, left, right } = node;
  const rule = OPERATORS.get(operatorToken.kind);
  const [before, after] = [left.getText(source), right.getText(source)];
  if (rule !== undefined) {
    if (rule[0] === 'arithmetic' && [left, right].some((side) => ts.isStringLiteralLike(side))) return;
    add(rule[0], node, `${before} ${rule[1]} ${after}`);
  } else if (operatorToken.kind === SyntaxKind.QuestionQuestionToken) {
    // Needs the brackets: `a ?? b` may stand anywhere.
    add('fallback', node, `(${before})`);
  }
}

function literals(node, add) {
  const { parent } = node;
  if (ts.isNumericLiteral(node)) {
    // Compared for equality: turned round already.
    if (ts.isBinaryExpression(parent) && OPERATORS.get(parent.operatorToken.kind)?.[0] === 'equality') return;
    if (ts.isPropertyAssignment(parent) && parent.name === node) return;
    const value = Number(node.text);
    add('constant', node, String(value <= 10 ? value + 1 : value * 2));
  } else if (node.kind === SyntaxKind.TrueKeyword) {
    add('constant', node, 'false');
  } else if (node.kind === SyntaxKind.FalseKeyword) {
    add('constant', node, saysWhatRan(node) ? "'unknown'" : 'true');
  } else if (ts.isStringLiteral(node)) {
    if (node.text === 'unknown' && !isCompared(node)) add('constant', node, 'false');
    else if (node.text.startsWith('ERR_') && !isCompared(node))
      add('constant', node, node.text === 'ERR_PROTOCOL' ? "'ERR_TIMEOUT'" : "'ERR_PROTOCOL'");
    else if (isResult(node)) add('constant', node, "'other'");
  }
}

function isCompared({ parent }) {
  return (
    ts.isCaseClause(parent) ||
    (ts.isBinaryExpression(parent) && OPERATORS.get(parent.operatorToken.kind)?.[0] === 'equality')
  );
}

/** A word that is given back, by itself, under `kind` or as a choice's branch: callers decide by it. */
function isResult(node) {
  const { parent } = node;
  if (ts.isReturnStatement(parent)) return /^[a-z-]+$/.test(node.text);
  if (ts.isPropertyAssignment(parent)) return parent.name.text === 'kind';
  return false;
}

/** `false` that stands where a verdict says whether a call ran: the lie would be the third value, not `true`. */
function saysWhatRan(node) {
  for (let at = node; at.parent !== undefined && !ts.isStatement(at); at = at.parent) {
    const { parent } = at;
    if (ts.isPropertyAssignment(parent)) return parent.name.text === 'executed';
    if (ts.isVariableDeclaration(parent)) return parent.name.text === 'executed';
    if (ts.isConditionalExpression(parent)) {
      const other = parent.whenTrue === at ? parent.whenFalse : parent.whenTrue;
      if (at !== parent.condition && ts.isStringLiteral(other) && other.text === 'unknown') return true;
    }
    if (ts.isCallExpression(parent))
      return ['failed', 'limited'].includes(parent.expression.text) && parent.arguments.includes(at);
  }
  return false;
}

/** Statements that do something are dropped, and exits before the end. */
function statements(node, add) {
  if (ts.isExpressionStatement(node)) add('dropped', node, ';', '(dropped)');
  const isExit =
    ts.isReturnStatement(node) ||
    ts.isThrowStatement(node) ||
    ts.isContinueStatement(node) ||
    ts.isBreakStatement(node);
  if (isExit && isEarly(node)) add('dropped', node, ';', '(dropped)');
}

function isEarly(node) {
  const { parent } = node;
  if (ts.isIfStatement(parent) || ts.isCaseOrDefaultClause(parent)) return true;
  if (!ts.isBlock(parent)) return false;
  const holder = parent.parent;
  return (
    ts.isIfStatement(holder) ||
    ts.isCaseOrDefaultClause(holder) ||
    ts.isCatchClause(holder) ||
    ts.isTryStatement(holder)
  );
}

function calls(node, add, source) {
  if (ts.isPropertyAccessExpression(node) && node.expression.getText(source) === 'Math') {
    if (node.name.text === 'min') add('extreme', node, 'Math.max');
    if (node.name.text === 'max') add('extreme', node, 'Math.min');
  }
  if (ts.isSpreadAssignment(node)) add('dropped', node, '...{}', '(dropped)');
}

/** The name of the function or member that a node stands in. */
function nameAround(node, source) {
  for (let at = node.parent; at !== undefined; at = at.parent) {
    if (ts.isConstructorDeclaration(at)) return 'constructor';
    const isNamed =
      ts.isFunctionDeclaration(at) ||
      ts.isMethodDeclaration(at) ||
      ts.isGetAccessorDeclaration(at) ||
      ts.isPropertyDeclaration(at) ||
      (ts.isVariableDeclaration(at) && ts.isSourceFile(at.parent.parent.parent));
    if (isNamed && at.name !== undefined) return at.name.getText(source);
  }
  return 'module';
}
