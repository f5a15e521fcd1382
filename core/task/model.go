package task

import (
	"context"
	"fmt"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/budget"
)

// leastGrant is by how many cents an OK raises what a model may cost, at least.
const leastGrant = 100

// AllowModel says whether a task may make its next model call. What a model costs is
// known only afterwards, so it may pass the budget once; then the next call waits here
// for the owner. An OK raises the bound by the task's budget, at least by a dollar; a
// no holds for ever.
func (t *Tasks) AllowModel(ctx context.Context, id string) (bool, error) {
	for {
		a, over, err := t.modelQuestion(ctx, id)
		switch {
		case err != nil:
			return false, err
		case !over:
			return true, nil
		case a.State == approval.Denied:
			return false, nil
		}
		if _, err := t.Await(ctx, a.ID, 0); err != nil {
			return false, err
		}
	}
}

// modelQuestion returns the question that a task's next model call waits for, asking
// it where it was not, and whether there is one.
func (t *Tasks) modelQuestion(ctx context.Context, id string) (a approval.Approval, over bool, err error) {
	err = t.commit(ctx, func(f *fold) ([]actionlog.Event, error) {
		e, err := f.entry(id)
		if err != nil {
			return nil, err
		}
		if !e.State.Live() {
			return nil, &Over{id, e.State}
		}
		bound := e.BudgetCents.Add(e.Granted)
		if e.CostCents.Cmp(bound) <= 0 {
			return nil, nil
		}
		over = true
		if last, ok := f.Approvals.Get(modelQuestionID(id, e.ModelAsk)); ok && last.State != approval.Approved {
			a = last
			return nil, nil
		}
		grant := e.CostCents.Sub(bound).Add(e.BudgetCents)
		if e.BudgetCents.Cmp(budget.Whole(leastGrant)) < 0 {
			grant = e.CostCents.Sub(bound).Add(budget.Whole(leastGrant))
		}
		a = approval.Approval{
			ID: modelQuestionID(id, e.ModelAsk+1), Task: id, State: approval.Pending, CostCents: grant, Purpose: "model",
			Question: fmt.Sprintf("The task has cost %s of its budget of %s. Let its model cost up to %s in all?",
				dollars(e.CostCents), dollars(bound), dollars(bound.Add(grant))),
		}
		return f.ask(e, a)
	})
	return a, over, err
}

// modelCost is what a task has cost and up to where its model may go on.
func (t *Tasks) modelCost(id string) (booked, bound budget.Cents, err error) {
	_, err = t.decide(func(f *fold) ([]actionlog.Event, error) {
		e, err := f.entry(id)
		if err == nil {
			booked, bound = e.CostCents, e.BudgetCents.Add(e.Granted)
		}
		return nil, err
	})
	return booked, bound, err
}

func modelQuestionID(task string, n int) string { return fmt.Sprintf("%s.budget.model.%d", task, n) }
