export { parseContext } from './context.ts';
export { Evaluations } from './evaluations.ts';
export type { Evaluated, EvaluatedFlag, EvaluationRequest } from './types.ts';
