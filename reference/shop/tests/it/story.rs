//! The story of an order, as operators read it: what each consumer did, the repeats that were stopped, what was undone, and the net
//! of each asset.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider::Scope;
use postrider::story::{self, Story, StoryEffect, Subject, Undone};
use postrider_shop::orders::By;
use postrider_shop::{jobs, refunds};

use crate::fixture::{Fixture, Tested, over_every_store};

over_every_store! {
    /// G.11: one order with stopped repeats and a compensation. Everything came back, and nothing happened twice.
    the_story_of_a_refunded_order,
    /// G.11: however an order ends, the net of each asset is 0.
    every_ended_order_has_given_everything_back,
    /// G.11: what a safety net does instead of a lost event is told by it, and counts once.
    a_safety_net_tells_what_it_did,
}

/// The story of an order, after the roll-up has seen its events.
pub(crate) async fn of_order<S: Tested>(shop: &Fixture<S>, order_id: &str) -> Story {
    while shop.shop.store.fold(500).await.unwrap().more {}
    story::read(&shop.shop.store, &Subject::Key(order_id.to_owned()), &Scope::default()).await.unwrap()
}

/// Asserts that the order has these assets, and that nothing of them is gone.
pub(crate) fn everything_came_back(story: &Story, assets: &[&str]) {
    let mut named: Vec<_> = story.assets.iter().map(|one| one.asset.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, assets, "{story:#?}");
    for asset in &story.assets {
        assert!(asset.balanced, "{asset:?} of {story:#?}");
    }
}

const ASSETS: [&str; 3] = ["Coupon spring", "Points of ada", "Wallet of ada"];

fn effects<'s>(story: &'s Story, topic: &str) -> Vec<&'s StoryEffect> {
    let events = story.events.iter().filter(|event| event.record.envelope.topic == topic);
    events.flat_map(|event| &event.effects).filter(|effect| effect.effect.is_some()).collect()
}

fn words(effects: &[&StoryEffect]) -> Vec<String> {
    let effect = |one: &&StoryEffect| one.effect.as_ref().map(|effect| effect.effect.clone()).unwrap_or_default();
    effects.iter().map(effect).collect()
}

/// The consumers of an order and its safety nets do the same under the same keys: the first one counts.
fn each_key_counts_once(story: &Story) {
    let told = story.events.iter().flat_map(|event| &event.effects).filter(|effect| effect.effect.is_some());
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in told {
        *first.entry(effect.idempotency_key.as_deref().unwrap()).or_default() += usize::from(!effect.again);
    }
    assert!(first.values().all(|first| *first == 1), "{first:?}");
}

async fn the_story_of_a_refunded_order<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    let payment = shop.begin_payment(&order).await;
    for _ in 0..3 {
        shop.payment_callback(&payment, true).await.unwrap();
    }
    shop.settle().await;
    // Two workers had the event at once, as after a network partition: the inbox stops the second one.
    for _ in 0..2 {
        shop.shop.store.redrive(&format!("order:{order}:paid"), "wallet", None).await.unwrap();
        shop.settle().await;
    }
    let sold = of_order(&shop, &order).await;
    let nets: Vec<_> = sold.assets.iter().map(|one| (one.asset.as_str(), one.net.as_deref().unwrap())).collect();
    assert_eq!(nets, [("Coupon spring", "-1"), ("Points of ada", "-1"), ("Wallet of ada", "-20.00")]);

    let refund = refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle().await;
    let story = of_order(&shop, &order).await;
    everything_came_back(&story, &ASSETS);
    assert_eq!((story.figures.repeats_stopped, story.figures.twice, story.cut), (2, 0, false));
    let aggregate = story.aggregate.as_ref().unwrap();
    assert_eq!((aggregate.kind.as_str(), aggregate.id.as_str()), ("ORDER", order.as_str()));

    let locked = effects(&story, "order.checkout_locked");
    assert_eq!(words(&locked), ["locked spring", "froze 100", "froze 20.00"]);
    let paid = effects(&story, "order.paid");
    assert_eq!(words(&paid), ["spent spring", "spent 100", "earned 99", "paid 20.00"]);
    let keys: Vec<_> = paid.iter().map(|one| one.idempotency_key.clone().unwrap()).collect();
    let named = ["order:{}:commit", "points:{}:commit", "points:{}:earn", "wallet:{}:commit"];
    assert_eq!(keys, named.map(|key| key.replace("{}", &order)));
    assert!(paid.iter().all(|one| one.key_state.as_deref() == Some("SUCCESS")));
    assert!(paid.iter().chain(&locked).all(|one| matches!(one.undone, Some(Undone::At(_)))), "{paid:#?}");
    let wallet = paid.iter().find(|one| one.consumer == "wallet").unwrap();
    assert_eq!(wallet.repeats_stopped, 2);

    let compensations: Vec<_> = story.events.iter().filter(|event| event.compensation).collect();
    let topics: Vec<_> = compensations.iter().map(|event| event.record.envelope.topic.as_str()).collect();
    assert_eq!(topics, ["order.refunded", "refund.success"]);
    for one in compensations.iter().flat_map(|event| &event.effects) {
        assert_eq!(one.undoes[0], format!("order:{order}:checkout_locked"), "{one:#?}");
        // The safety net may have been faster than the consumer of `order.paid`.
        assert!(one.undoes[1].ends_with(":paid") || one.undoes[1].ends_with(":success"), "{one:#?}");
    }
    each_key_counts_once(&story);
    shop.books_balance().await;
}

async fn every_ended_order_has_given_everything_back<S: Tested>(shop: Fixture<S>) {
    // Before payment, by the customer; with a failed payment; by the reaper.
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.cancel(&order, By::User).await.unwrap();
    shop.settle().await;
    everything_came_back(&of_order(&shop, &order).await, &ASSETS);

    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    let payment = shop.begin_payment(&order).await;
    shop.payment_callback(&payment, false).await.unwrap();
    shop.settle().await;
    everything_came_back(&of_order(&shop, &order).await, &ASSETS);

    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.age(Duration::from_secs(31 * 60)).await;
    assert_eq!(jobs::reap(&shop.shop).await.unwrap().orders_canceled, 1);
    shop.settle().await;
    everything_came_back(&of_order(&shop, &order).await, &ASSETS);

    // Canceled before anything was locked: nothing moved, so there is no effect.
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.cancel(&order, By::User).await.unwrap();
    shop.settle().await;
    let story = of_order(&shop, &order).await;
    assert!(story.assets.iter().all(|asset| asset.balanced), "{story:#?}");

    // Paid and refunded at once, before any consumer has seen the order.
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.pay(&order).await;
    let refund = refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.settle_in_time().await;
    let story = of_order(&shop, &order).await;
    assert!(story.assets.iter().all(|asset| asset.balanced), "{story:#?}");
    assert_eq!(shop.balances().await, [10_000, 0, 500, 0]);
    shop.books_balance().await;
}

async fn a_safety_net_tells_what_it_did<S: Tested>(shop: Fixture<S>) {
    let order = shop.check_out(Fixture::<S>::wanted()).await;
    shop.settle().await;
    shop.pay(&order).await;
    shop.settle().await;
    let refund = refunds::begin(&shop.shop, &order).await.unwrap();
    shop.refund_callback(&refund.refund_id, true).await.unwrap();
    shop.lose("order.refunded").await;
    shop.settle().await;
    let story = of_order(&shop, &order).await;
    everything_came_back(&story, &ASSETS);
    let net = effects(&story, "refund.success");
    assert_eq!(words(&net), ["returned spring", "gave back 20.00", "reverted +1"]);
    assert!(net.iter().all(|one| one.consumer == "refund" && !one.again), "{net:#?}");
    each_key_counts_once(&story);
}
