// Package sched is the queue of one dispatcher: which of the waiting jobs may be
// attempted next. It is a pure value, without goroutine, lock or clock; the time
// is an argument.
//
// A job is pushed, taken out by Next, attempted by the caller, and answered: it
// was granted and has left, or it was denied and goes back to its old place.
// Several may be out at once: what Next hands out one after the other is a batch,
// in order, each chosen as if those before it had been granted.
//
//	q.Push(&task.Job)
//	for j := q.Next(now, worst); j != nil; j = q.Next(now, worst) {
//		batch = append(batch, j)
//	}
//	// for each answer, in any order
//	q.Granted(j)
//	q.Denied(j, limit, own, until)
//
// # Order
//
// Between classes, the lower number goes first.
//
// Between the tenants of a class the order is start-time fair queueing on tokens.
// A tenant has a finish tag F, the class a virtual time V. A tenant competes while
// it has a job that waits and is not parked, or one that is out. Its next job
// starts at F, and the smallest start goes first; of equal ones, the job that was
// pushed first. Granting a job adds cost/weight to F, and V becomes the job's
// start, if that is larger. A tenant that begins to compete starts at max(V, F):
// it has saved nothing up, and owes nothing but what is left of its own last jobs.
// One that was parked is no different, or it could starve the others when its
// budget for the day comes back. What a job really used corrects F afterwards,
// although never to before where its tenant last began to compete. A tenant has
// one F in a class, however many lanes.
//
// A job that is out moves its tenant's lanes by its share as if it had been
// granted. A denial takes just that share out again, so that the order in which a
// batch is answered does not matter. V and F themselves move only with a grant.
//
// Tags are forgotten when they say nothing more: when a tenant has no job and its
// F is not ahead of V; for all tenants without a job when nobody competes in the
// class, for then nobody wanted what they used; and the smallest when there are
// more of them than tenants competing, and 256. In that case V moves to the
// forgotten F, so that nobody gains. Without it neither memory nor waits would be
// bounded under an endless row of newcomers: each starts at V, none moves it, and
// all pass a tenant that has been served once.
//
// Within a lane (the jobs of one tenant, class and group) the order is that of
// arrival, and of the first push among jobs that arrived at once. A job that was
// denied or sent back keeps both, and with them its place.
//
// A class is overdue when its oldest job has waited AgingStep for each class from
// the most urgent one that has work to its own; the most urgent class itself is
// never overdue. While the credit is positive, the oldest job of the class that is
// overdue by most goes next. Every grant adds AgedShare of its cost to the credit,
// up to one burst, the largest cost lately, and a grant by this rule takes its
// cost. So an overdue class waits for no more than one job, and an endless backlog
// of overdue work takes AgedShare of the tokens, and one job, from urgent work. A
// grant by this rule raises F like any other, and V to no more than the smallest
// start left in the class, because the class was not served up to the job's own.
//
// # Blocking
//
// A denial speaks of the first job of a lane, and holds until the time it gave,
// until something comes back on the limit (Free), or until another job is the
// first of that lane because this one left or an older one came back. A denial of
// any other job says nothing: it stands behind one that has its own answer.
//
// If the limit is the tenant's own, the lane is parked: it is out of the order, and
// everybody passes it.
//
// If the limit is shared, the job becomes the holder on that limit. Next looks at
// the jobs in order; when it meets a holder, it goes on with those jobs only that
// do not charge that limit. So nobody behind the holder takes from it, however
// small, and a large job is not starved by small ones. Somebody in front of the
// holder may be attempted, and becomes the holder in its place if denied. Of a
// batch, the one that was taken first becomes the holder, whatever the order of
// the answers.
//
// # The line
//
// A ledger that keeps the order of all processes holds what a denied job needs by
// itself. Then every denial of the first job of a lane parks the lane (Line), which
// has a ticket in that order from then on; the caller asks for those that may ask
// again (NextTicket), and for others unless they would stand behind those
// (NextBeside). Order and ageing here then only say whose job is the next to get a
// ticket.
//
// # Cost
//
// Each class has its lanes by group, and each group two heaps of the lanes that
// are not parked: by start tag and by the arrival of the oldest job. Groups share
// a set of limits each and are few, so that passing over a blocked limit is
// passing over groups: Next looks at the top of each group once for each holder it
// meets. All else is O(log lanes) or less, whatever the number of jobs: the jobs of
// a lane are a list; Free and the passing of time cost that for each lane that
// they let go; Victim finds the longest lane in constant time. Nothing is
// allocated for a job whose lane exists, except when a limit first parks a lane. A
// waiting job in a lane of its own takes 460 bytes, with the Job.
//
// # Concurrency
//
// A Queue is used by one goroutine at a time. It calls Config.Weight during Push
// and Settled, and nothing else of the caller's. It keeps pointers to the jobs in
// it, and touches none that has left.
//
// # Failure
//
// No call fails. One that does not fit the state of its job does nothing, so that a
// job can be cancelled twice, or answered after it was removed, without moving any
// other. Classes, costs, weights and settlements out of range count as the nearest
// that is in range.
package sched
