export { type ParsedContext, parseContext } from './context.ts';
export { Evaluations } from './evaluations.ts';
export { evalxMembers, flagEvalMembers } from './text.ts';
export type {
  BigSegmentStore,
  Evaluated,
  EvaluatedFlag,
  EvaluationAudience,
  EvaluationRequest,
  EvaluationsOptions,
  EvaluationsStats,
} from './types.ts';
