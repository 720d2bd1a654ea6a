//! A redrive is a plan: which events, in steps with gates, and what came of each of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider::failures::failures;
use postrider::operations::{Operations, OperationsOptions, REDRIVE, dry_run};
use postrider::prelude::*;
use postrider::redrive::RedriveRules;
use postrider::store::access::AuditQuery;
use postrider::store::{
    Advance, Buried, DeadHead, Filter, History, ItemList, ItemOutcome, Lease, List, NewOperation, Operation,
    OperationState, PlanPage, Prunable, Prune, Ramp, Steer, StepState, Token,
};
use postrider::{Scope, Via};

use crate::Harness;
use crate::fold::fold_all;
use crate::operations::{dead_events, failed_ones, redrives};
use crate::steps::*;

const SECOND: Duration = Duration::from_secs(1);

/// An operation with a ramp whose gates wait until every result is there.
fn ramp(sizes: &[u32]) -> NewOperation {
    let ramp = Ramp { gate: HOUR, ..Ramp::new(sizes.to_vec()) };
    NewOperation { ramp: Some(ramp), ..NewOperation::redrive("op", failed_ones()) }
}

async fn ask(h: &impl Harness, request: NewOperation) -> Operation {
    h.store().create_operation(&request).await.unwrap()
}

/// One piece of work. The claim is kept.
async fn piece(h: &impl Harness, batch: u32) -> (Operation, Token) {
    let (operation, token) = h.store().claim_operation("me", LEASE).await.unwrap().expect("there is something to do");
    let mut page = None;
    if let (Some(_), OperationState::Running) = (operation.position, operation.state) {
        let (filter, after) = (operation.request.filter.clone(), operation.position);
        let found = h.store().list(&List { filter, limit: 200, after }).await.unwrap();
        let events = found.events.iter().map(|one| (one.sequence, one.envelope.event_id.to_string())).collect();
        page = Some(PlanPage { after, events, next: found.next });
    }
    let advance = Advance { id: &operation.request.id, token, page, batch, lease: LEASE };
    (h.store().advance_operation(&advance).await.unwrap().expect("it is the caller's"), token)
}

/// Works until a gate waits, or the operation does not run any more.
async fn work(h: &impl Harness) -> Operation {
    loop {
        let (operation, token) = piece(h, 200).await;
        assert!(h.store().release_operation(&operation.request.id, token, Duration::ZERO).await.unwrap());
        if operation.gate_since.is_some() || operation.state != OperationState::Running {
            return operation;
        }
    }
}

/// The consumer takes everything that is due, and fails so many of it.
async fn consume(h: &impl Harness, failures: usize) -> usize {
    let lease = claim(h, 500).await;
    let (bad, good) = lease.deliveries.split_at(failures);
    let burials: Vec<Buried> = bad.iter().map(|one| buried(one.id)).collect();
    if !burials.is_empty() {
        h.store().bury(lease.token, &burials, History::Keep).await.unwrap();
    }
    let good: Vec<_> = good.iter().map(|one| one.id).collect();
    if !good.is_empty() {
        h.store().settle(lease.token, &good, History::Keep).await.unwrap();
    }
    lease.deliveries.len()
}

async fn steer(h: &impl Harness, steer: Steer) -> Operation {
    h.store().steer_operation("op", steer).await.unwrap().unwrap()
}

/// The ids and rules of an operation's events with an outcome.
async fn items(h: &impl Harness, outcome: ItemOutcome) -> Vec<(String, Option<String>)> {
    let mut list = ItemList { operation: "op".into(), outcome: Some(outcome), after: 0, limit: 3 };
    let mut all = Vec::new();
    loop {
        let page = h.store().operation_items(&list).await.unwrap();
        let Some(last) = page.last() else { return all };
        assert!(page.len() <= 3 && page.iter().all(|item| item.outcome == outcome), "{page:?}");
        list.after = last.sequence;
        all.extend(page.into_iter().map(|item| (item.event_id, item.rule)));
    }
}

fn figures(operation: &Operation) -> (u64, u64, u64, u64) {
    let progress = &operation.progress;
    (operation.done, progress.delivered, progress.failed_again, progress.open)
}

/// G.12: 500 failed events in steps of 1, 10, 100 and the rest. While the consumer fails, each gate stops it; after the repair it
/// goes on behind what it did, and what failed before does not stop it again. Every event is redriven once.
pub async fn a_ramp_stops_by_itself_and_finishes_after_the_repair<H: Harness>(h: H) {
    dead_events(&h, 500).await;
    let asked = ask(&h, ramp(&[1, 10, 100])).await;
    assert!(asked.number > 0);
    let at_gate = work(&h).await;
    assert_eq!((figures(&at_gate), at_gate.request.total), ((1, 0, 0, 1), Some(500)), "the first step is one event");
    assert_eq!(at_gate.stairs().iter().map(|step| step.size.unwrap()).collect::<Vec<_>>(), [1, 10, 100, 389]);
    assert_eq!(figures(&work(&h).await), (1, 0, 0, 1), "the gate waits");
    assert_eq!(consume(&h, 1).await, 1);
    let stopped = work(&h).await;
    assert_eq!((stopped.state, figures(&stopped)), (OperationState::Paused, (1, 0, 1, 0)));
    assert_eq!(stopped.progress.stopped_because.as_deref(), Some("1 of 1 failed again (100.0 %)"));
    assert!(h.store().claim_operation("me", LEASE).await.unwrap().is_none(), "nothing is left to do");

    let resumed = steer(&h, Steer::Resume).await;
    assert_eq!((resumed.state, &resumed.progress.stopped_because), (OperationState::Running, &None));
    assert_eq!(figures(&work(&h).await), (2, 0, 1, 1), "one more event, behind a gate of its own");
    consume(&h, 0).await;
    assert_eq!(figures(&work(&h).await), (12, 1, 1, 10));
    consume(&h, 2).await;
    assert_eq!(figures(&work(&h).await), (112, 9, 3, 100), "20 % is not above 20 %");
    consume(&h, 21).await;
    let stopped = work(&h).await;
    assert_eq!(stopped.progress.stopped_because.as_deref(), Some("21 of 100 failed again (21.0 %)"));
    assert_eq!(consume(&h, 0).await, 0, "nothing more is redriven");

    steer(&h, Steer::Resume).await;
    assert_eq!(figures(&work(&h).await), (212, 88, 24, 100));
    consume(&h, 0).await;
    assert_eq!(figures(&work(&h).await), (500, 188, 24, 288));
    consume(&h, 0).await;
    let done = work(&h).await;
    assert_eq!((done.state, figures(&done)), (OperationState::Done, (500, 476, 24, 0)));
    let steps: Vec<_> = done.stairs().iter().map(|step| (step.size.unwrap(), step.state, step.failed_again)).collect();
    use StepState::{Passed, Stopped};
    assert_eq!(
        steps,
        [(1, Stopped, 1), (1, Passed, 0), (10, Passed, 2), (100, Stopped, 21), (100, Passed, 0), (288, Passed, 0)]
    );
    assert_eq!(redrives(&h).await, vec![1; 500]);
    assert_eq!(items(&h, ItemOutcome::FailedAgain).await.len(), 24);
    assert!(h.store().claim_operation("me", LEASE).await.unwrap().is_none());
}

/// G.12: the worker dies in the middle of a step. Its successor goes on there, and the dead one's late call does nothing.
pub async fn a_worker_dies_in_the_middle_of_a_step<H: Harness>(h: H) {
    dead_events(&h, 300).await;
    ask(&h, ramp(&[100])).await;
    let (mut operation, mut token) = piece(&h, 0).await;
    while operation.position.is_some() {
        assert!(h.store().release_operation("op", token, Duration::ZERO).await.unwrap());
        (operation, token) = piece(&h, 0).await;
    }
    assert!(h.store().release_operation("op", token, Duration::ZERO).await.unwrap());
    let (half, zombie) = piece(&h, 30).await;
    assert_eq!((half.done, half.progress.steps[0].state), (30, StepState::Running));
    assert!(h.store().claim_operation("other", LEASE).await.unwrap().is_none(), "its lease holds");
    age(&h, HOUR).await;
    let at_gate = work(&h).await;
    assert_eq!((at_gate.done, at_gate.progress.open), (100, 100), "the step is full, and no fuller");
    let late = Advance { id: "op", token: zombie, page: None, batch: 30, lease: LEASE };
    assert!(h.store().advance_operation(&late).await.unwrap().is_none());
    consume(&h, 0).await;
    assert_eq!(work(&h).await.done, 300);
    let mut all = redrives(&h).await;
    all.sort_unstable();
    assert_eq!(all, vec![1; 300], "none twice");
}

/// G.12: a gate waits no longer than its time. Then the results that came decide; if none came, it stops.
pub async fn a_gate_waits_no_longer_than_its_time<H: Harness>(h: H) {
    dead_events(&h, 30).await;
    let mut asked = ramp(&[5, 10]);
    asked.ramp.iter_mut().for_each(|ramp| ramp.gate = 30 * SECOND);
    ask(&h, asked).await;
    assert_eq!(work(&h).await.done, 5);
    let lease = claim(&h, 1).await;
    h.store().settle(lease.token, &lease.ids(), History::Keep).await.unwrap();
    assert_eq!(figures(&work(&h).await), (5, 1, 0, 4), "four have no result");
    age(&h, 31 * SECOND).await;
    assert_eq!(figures(&work(&h).await), (15, 1, 0, 14), "the one that came was good");
    age(&h, 31 * SECOND).await;
    let stopped = work(&h).await;
    assert_eq!(stopped.state, OperationState::Paused);
    let why = stopped.progress.stopped_because.as_deref();
    assert_eq!(why, Some("none of 10 redriven events had its first attempt within 30 s"));
    consume(&h, 14).await;
    let late = work(&h).await;
    assert_eq!((late.state, figures(&late)), (OperationState::Paused, (15, 1, 14, 0)), "late results are counted too");
    let steps: Vec<_> = late.progress.steps.iter().map(|step| step.failed_again).collect();
    assert_eq!(steps[..2], [4, 10]);
}

/// G.12: an operator pauses and cancels between two gates, and nothing more is redriven.
pub async fn a_ramp_is_paused_and_cancelled<H: Harness>(h: H) {
    dead_events(&h, 30).await;
    ask(&h, ramp(&[5, 10])).await;
    work(&h).await;
    assert_eq!(steer(&h, Steer::Pause).await.state, OperationState::Paused);
    consume(&h, 5).await;
    assert_eq!(figures(&work(&h).await), (5, 0, 5, 0), "results are read all the same");
    let resumed = steer(&h, Steer::Resume).await;
    assert_eq!(resumed.progress.steps.len(), 3, "a person paused it, so no step is taken again");
    let stopped = work(&h).await;
    assert_eq!((stopped.state, stopped.done), (OperationState::Paused, 5), "the gate decides after the pause");
    assert_eq!(steer(&h, Steer::Cancel).await.state, OperationState::Cancelled);
    assert_eq!(steer(&h, Steer::Resume).await.state, OperationState::Cancelled);
    assert_eq!(redrives(&h).await.iter().sum::<u32>(), 5);
    assert_eq!(items(&h, ItemOutcome::Planned).await.len(), 25);
}

/// G.12: chosen events, and no others. Ids that are unknown or given twice do no harm.
pub async fn chosen_events_are_redriven<H: Harness>(h: H) {
    dead_events(&h, 10).await;
    let event_ids: Vec<String> = ["e00002", "e00007", "e00007", "nothing", "e00004"].map(Into::into).to_vec();
    let filter = Filter { event_ids, ..Filter::default() };
    let found = h.store().list(&List::new(filter.clone(), 2)).await.unwrap();
    let listed: Vec<_> = found.events.iter().map(|one| one.envelope.event_id.as_str()).collect();
    assert_eq!(listed, ["e00007", "e00004"]);
    let rest = h.store().list(&List { after: found.next, ..List::new(filter.clone(), 2) }).await.unwrap();
    assert_eq!((rest.events[0].envelope.event_id.as_str(), rest.next), ("e00002", None));
    let counted = h.store().count_events(&filter).await.unwrap();
    assert_eq!((counted.value, counted.exact), (3, true));
    let of_topic = Filter { topic: Some("other".into()), ..filter.clone() };
    assert_eq!(h.store().count_events(&of_topic).await.unwrap().value, 0, "both must fit");
    ask(&h, NewOperation { oldest_first: true, ..NewOperation::redrive("op", filter) }).await;
    let done = work(&h).await;
    assert_eq!((done.state, done.done, done.request.total), (OperationState::Done, 3, Some(3)));
    assert_eq!(ids(&claim(&h, 500).await), ["e00002", "e00004", "e00007"]);
    let too_many = Filter { event_ids: vec!["e".into(); 1_001], ..Filter::default() };
    assert!(h.store().create_operation(&NewOperation::redrive("many", too_many)).await.is_err());
}

/// Fails an event for good on a lane, with an error.
async fn fail(h: &impl Harness, lease: &Lease, event_id: &str, error: &str) {
    let one = lease.deliveries.iter().find(|one| one.envelope.event_id.as_str() == event_id).expect("it is claimed");
    let burial = Buried { error: error.into(), ..buried(one.id) };
    h.store().bury(lease.token, &[burial], History::Keep).await.unwrap();
}

/// G.12: a group of failures has the same id as long as it exists, its events are listed and redriven by it, and for its consumer
/// only.
pub async fn a_failure_group_is_redriven<H: Harness>(h: H) {
    subscribe_lane(&h).await;
    subscribe(&h, TOPIC, "audit-log", Via::Local).await;
    enqueue(&h, drafts(4)).await;
    enqueue(&h, [draft("k1").key("k"), draft("k2").key("k")]).await;
    let lease = claim(&h, 10).await;
    fail(&h, &lease, "e00000", "wallet 7 is away").await;
    fail(&h, &lease, "e00001", "wallet 8 is away").await;
    fail(&h, &lease, "e00002", "no such wallet").await;
    let lease = claim_keyed(&h, 1).await;
    fail(&h, &lease, "k1", "wallet 9 is away").await;
    let other = h.store().claim(&postrider::store::Claim { lane: "audit-log".into(), ..wanted(10) }).await.unwrap();
    fail(&h, &other, "e00000", "wallet 7 is away").await;
    fold_all(&h).await;
    let found = failures(h.store(), &Scope::default()).await.unwrap();
    let away = found.groups.iter().find(|one| one.consumer == LANE && one.events == 3).expect("three are of one kind");
    assert_eq!((away.dead, away.held, &away.topics), (3, 1, &vec![(TOPIC.to_owned(), 3)]), "{away:?}");
    assert_eq!((away.hours[23], away.hours.iter().sum::<u64>()), (3, 3));
    age(&h, 2 * HOUR).await;
    let again = failures(h.store(), &Scope::default()).await.unwrap();
    let same = again.groups.iter().find(|one| one.id == away.id).expect("its id stays");
    assert_eq!((same.hours[23], same.hours[21]), (0, 3));
    let filter = Filter { failure_groups: vec![away.id.clone()], ..Filter::default() };
    let listed = h.store().list(&List::new(filter.clone(), 10)).await.unwrap();
    let listed: BTreeSet<_> = listed.events.iter().map(|one| one.envelope.event_id.to_string()).collect();
    assert_eq!(listed, ["e00000", "e00001", "k1"].map(Into::into).into());
    assert_eq!(h.store().count_events(&filter).await.unwrap().value, 3);
    for unknown in ["points-000000000000", "nobody-0123456789ab"] {
        let none = Filter { failure_groups: vec![unknown.into()], ..Filter::default() };
        assert!(h.store().list(&List::new(none, 10)).await.unwrap().events.is_empty(), "{unknown}");
    }
    let odd = Filter { failure_groups: vec!["points".into()], ..Filter::default() };
    assert!(h.store().list(&List::new(odd, 10)).await.is_err(), "it is no id of a group");

    ask(&h, NewOperation { only_failed: true, ..NewOperation::redrive("op", filter) }).await;
    assert_eq!(work(&h).await.done, 3);
    // The lease of e00003 has ended meanwhile; e00002 is of another kind.
    assert_eq!(ids(&claim(&h, 500).await), ["e00000", "e00001", "e00003"]);
    let keyed = claim_all_keyed(&h, DeadHead::Hold).await;
    assert_eq!(keyed.iter().map(|lease| lease.deliveries.len()).sum::<usize>(), 2, "what was held goes on");
    let other = h.store().claim(&postrider::store::Claim { lane: "audit-log".into(), ..wanted(10) }).await.unwrap();
    assert!(!ids(&other).contains(&"e00000"), "the part of the other consumer is not redriven");
}

/// G.12: each event of an operation is listed with what came of it and the rule that was in the way; a dry run says the same before.
pub async fn items_and_dry_run_name_the_rules<H: Harness>(h: H) {
    dead_events(&h, 12).await;
    subscribe(&h, TOPIC, "late", Via::Local).await;
    for n in [0, 1, 2, 1, 2] {
        h.store().redrive(&format!("e{n:05}"), LANE, None).await.unwrap();
    }
    let lease = claim(&h, 3).await;
    h.store().settle(lease.token, &[lease.deliveries[0].id], History::Keep).await.unwrap();
    h.store().expire("e00003").await.unwrap();
    let rules = RedriveRules { max_count: 2, ..RedriveRules::default() };
    let all = Filter { topic: Some(TOPIC.into()), ..Filter::default() };
    let request = NewOperation { rules, ramp: Some(Ramp::new(vec![2, 4])), ..NewOperation::redrive("op", all.clone()) };
    let found = dry_run(h.store(), &request).await.unwrap();
    assert_eq!((found.matching, found.exact, found.looked_at), (12, true, 12));
    let split: Vec<_> = found.split.iter().map(|share| (share.rule, share.events)).collect();
    assert_eq!(split, [(REDRIVE, 8), ("redriveLimit", 2), ("consumed", 1), ("expired", 1)]);
    assert_eq!(found.split[0].samples.len(), 5, "five of them");
    assert_eq!(found.split[2].samples, ["e00000"]);
    assert_eq!(found.already_succeeded, [(LANE.to_owned(), 1)]);
    assert_eq!(found.steps.iter().map(|step| step.size.unwrap()).collect::<Vec<_>>(), [2, 4, 2]);
    assert_eq!(redrives(&h).await.iter().sum::<u32>(), 5, "a dry run changes nothing");

    ask(&h, NewOperation { ramp: None, ..request }).await;
    let done = work(&h).await;
    assert_eq!((done.done, done.failed, done.skipped), (8, 2, 2), "{done:?}");
    let named = |ids: &[(&str, &str)]| -> Vec<_> {
        ids.iter().map(|(id, rule)| ((*id).to_owned(), Some((*rule).to_owned()))).collect()
    };
    assert_eq!(items(&h, ItemOutcome::Skipped).await, named(&[("e00000", "consumed"), ("e00003", "expired")]));
    assert_eq!(items(&h, ItemOutcome::Refused).await, named(&[("e00001", "redriveLimit"), ("e00002", "redriveLimit")]));
    assert_eq!(items(&h, ItemOutcome::Open).await.len(), 8);
    let any = ItemList { operation: "op".into(), outcome: None, after: 0, limit: 500 };
    assert_eq!(h.store().operation_items(&any).await.unwrap().len(), 12);
    let none = ItemList { operation: "nothing".into(), ..any.clone() };
    assert!(h.store().operation_items(&none).await.unwrap().is_empty());
    assert!(h.store().operation_items(&ItemList { limit: 501, ..any }).await.is_err());
}

/// G.12: without a ramp it ends at once, and what comes of its events is read afterwards.
pub async fn results_come_after_the_end<H: Harness>(h: H) {
    dead_events(&h, 20).await;
    ask(&h, NewOperation::redrive("op", failed_ones())).await;
    let done = work(&h).await;
    assert_eq!((done.state, figures(&done)), (OperationState::Done, (20, 0, 0, 20)));
    assert!(done.stairs().is_empty(), "it has no steps");
    consume(&h, 6).await;
    assert_eq!(figures(&work(&h).await), (20, 14, 6, 0));
    assert!(h.store().claim_operation("me", LEASE).await.unwrap().is_none());
    // A later success of one that failed again does not change what the redrive brought.
    h.store().redrive("e00019", LANE, None).await.unwrap();
    consume(&h, 0).await;
    assert_eq!(items(&h, ItemOutcome::FailedAgain).await.len(), 6);
    // A retry is a failure too, and an event that expires or is discarded before its first attempt is not delivered.
    let chosen = Filter { event_ids: vec!["e00000".into(), "e00001".into(), "e00002".into()], ..Filter::default() };
    enqueue(&h, [draft("a"), draft("b"), draft("c")]).await;
    let lease = claim(&h, 3).await;
    h.store().bury(lease.token, &lease.ids().into_iter().map(buried).collect::<Vec<_>>(), History::Keep).await.unwrap();
    let chosen = Filter { event_ids: vec!["a".into(), "b".into(), "c".into()], ..chosen };
    ask(&h, NewOperation::redrive("second", chosen)).await;
    work(&h).await;
    let lease = claim(&h, 1).await;
    h.store().retry(lease.token, &[failed(lease.deliveries[0].id, HOUR)], History::Keep).await.unwrap();
    h.store().expire("b").await.unwrap();
    h.store().discard("c", LANE, "a test").await.unwrap();
    assert_eq!(figures(&work(&h).await), (3, 0, 3, 0));
}

/// G.12: the oldest first, step by step.
pub async fn the_oldest_come_first_if_asked<H: Harness>(h: H) {
    dead_events(&h, 30).await;
    let asked = NewOperation { oldest_first: true, ..ramp(&[2, 5]) };
    ask(&h, asked).await;
    work(&h).await;
    let open = items(&h, ItemOutcome::Open).await;
    assert_eq!(open.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["e00000", "e00001"]);
    consume(&h, 0).await;
    work(&h).await;
    assert_eq!(items(&h, ItemOutcome::Open).await[0].0, "e00002");
    assert_eq!(items(&h, ItemOutcome::Planned).await[0].0, "e00007");
}

/// G.12: the worker reads results and stops the operation by itself; the audit has the reason. A lane that keeps no history counts
/// by its deliveries.
pub async fn a_stop_is_audited<H: Harness>(h: H) {
    dead_events(&h, 40).await;
    ask(&h, ramp(&[3])).await;
    let store: Arc<dyn Store> = Arc::new(h.store().clone());
    let options = OperationsOptions { poll: Duration::from_millis(5), lease: LEASE, ..OperationsOptions::default() };
    let worker = tokio::spawn(Operations::new(store).options(options).run(std::future::pending()));
    let stopped = loop {
        let lease = claim(&h, 500).await;
        let burials: Vec<_> = lease.ids().into_iter().map(buried).collect();
        if !burials.is_empty() {
            h.store().bury(lease.token, &burials, History::Omit).await.unwrap();
        }
        let operation = h.store().operation("op").await.unwrap().unwrap();
        if operation.state != OperationState::Running {
            break operation;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    worker.abort();
    assert_eq!((stopped.state, figures(&stopped)), (OperationState::Paused, (3, 0, 3, 0)));
    let query = AuditQuery { target: Some("op".into()), limit: 10, ..AuditQuery::default() };
    let found = h.store().find_audit(&query).await.unwrap();
    let [record] = &found[..] else { panic!("the stop alone has no person's record: {found:?}") };
    assert_eq!(record.action, "operation stopped itself");
    assert_eq!(record.reason.as_deref(), Some("3 of 3 failed again (100.0 %)"));
    assert!(record.before.as_deref().is_some_and(|before| before.contains("RUNNING")), "{record:?}");
}

/// G.3 G.12: an operation goes with its events, in small batches; pages of operations go on behind a number.
pub async fn operations_go_with_their_events<H: Harness>(h: H) {
    dead_events(&h, 25).await;
    ask(&h, NewOperation::redrive("op", failed_ones())).await;
    work(&h).await;
    consume(&h, 0).await;
    work(&h).await;
    let second = ask(&h, NewOperation::redrive("second", failed_ones())).await;
    let newest = h.store().operations(None, 1).await.unwrap();
    assert_eq!((newest[0].request.id.as_str(), newest[0].number), ("second", second.number));
    let older = h.store().operations(Some(second.number), 5).await.unwrap();
    assert_eq!(older.iter().map(|one| one.request.id.as_str()).collect::<Vec<_>>(), ["op"]);
    age(&h, 2 * HOUR).await;
    let prune = Prune { what: Prunable::Operations, older_than: HOUR, after: 0, limit: 10 };
    let (mut removed, mut batches) = (0, 0);
    loop {
        let pruned = h.store().prune(&prune).await.unwrap();
        removed += pruned.removed;
        batches += 1;
        if pruned.next.is_none() {
            break;
        }
    }
    assert!(removed == 1 && batches <= 4, "{removed} in {batches}");
    let any = ItemList { operation: "op".into(), outcome: None, after: 0, limit: 500 };
    assert!(h.store().operation_items(&any).await.unwrap().is_empty());
    assert!(h.store().operation("op").await.unwrap().is_none());
}
