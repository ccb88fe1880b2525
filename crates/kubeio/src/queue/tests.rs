use super::*;

fn queue() -> Queue<&'static str> {
    Queue::new(Duration::from_secs(1), Duration::from_secs(60))
}

fn remind(queue: &Queue<&'static str>, key: &'static str) {
    queue.remind(Source::default(), Urgency::Normal, key);
}

async fn is_idle(queue: &Queue<&'static str>) -> bool {
    tokio::time::timeout(Duration::from_millis(1), queue.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn an_urgent_key_comes_before_all_others_and_is_still_handed_out_once() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_from(Source::default(), Urgency::Urgent, "c");
    queue.add_from(Source::default(), Urgency::Urgent, "d");
    let mut order = Vec::new();
    for _ in 0..4 {
        let key = queue.next().await;
        queue.done(&key);
        order.push(key);
    }
    assert_eq!(order, ["c", "d", "a", "b"]);
    assert!(tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn urgent_keys_without_end_do_not_hold_up_the_others_for_ever() {
    let queue = Queue::new(Duration::from_secs(1), Duration::from_secs(60));
    queue.add(0);
    for urgent in 1..=TURNS {
        queue.add_from(Source::default(), Urgency::Urgent, urgent);
    }
    let mut order = Vec::new();
    for _ in 0..=TURNS {
        order.push(queue.next().await);
    }
    assert_eq!(order.iter().position(|key| *key == 0), Some(TURNS as usize - 1), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn an_urgent_key_that_is_worked_on_comes_again_afterwards_and_before_all_others() {
    let queue = queue();
    queue.add("a");
    let first = queue.next().await;
    queue.add("b");
    queue.add("a");
    queue.add_from(Source::default(), Urgency::Urgent, "a");
    queue.done(&first);
    assert_eq!([queue.next().await, queue.next().await], ["a", "b"]);
    assert!(is_idle(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn sources_take_turns() {
    let queue = queue();
    for key in ["a1", "a2", "a3", "a4"] {
        queue.add_from(Source::named("eu-1"), Urgency::Normal, key);
    }
    queue.add_from(Source::named("us-1"), Urgency::Normal, "b1");
    queue.add("c1");
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(queue.next().await);
    }
    assert_eq!(order, ["a1", "b1", "c1", "a2", "a3", "a4"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_handed_out_once() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!([queue.next().await, queue.next().await], ["a", "b"]);
    assert!(is_idle(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_worked_on_comes_again_after_done() {
    let queue = queue();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    assert!(is_idle(&queue).await, "two workers must never hold one key");
    queue.done(&"a");
    assert_eq!(queue.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_counts_and_an_add_cancels_it() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", Duration::from_secs(50));
    queue.add_after("a", Duration::from_secs(5));
    queue.add_after("a", Duration::from_secs(20));
    assert_eq!(queue.next().await, "a");
    assert_eq!(start.elapsed().as_secs(), 5);
    queue.done(&"a");
    queue.add_after("a", Duration::from_secs(5));
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.done(&"a");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(is_idle(&queue).await, "the delayed entry was taken over by the immediate one");
}

#[tokio::test(start_paused = true)]
async fn retries_wait_longer_each_time_until_forgotten() {
    let queue = queue();
    let mut waits = Vec::new();
    for round in 0..4 {
        if round == 3 {
            queue.forget(&"a");
        }
        let start = Instant::now();
        queue.retry("a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        waits.push(start.elapsed());
    }
    assert!(waits[0] < waits[2], "{waits:?}");
    assert!(waits[3] <= Duration::from_secs(1) + Duration::from_millis(2), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_urgent_is_still_so_when_it_is_tried_again() {
    let queue = queue();
    queue.add_from(Source::default(), Urgency::Urgent, "deletion");
    let key = queue.next().await;
    queue.retry(key);
    queue.done(&key);
    tokio::time::advance(Duration::from_secs(2)).await;
    queue.add("progress");
    assert_eq!([queue.next().await, queue.next().await], ["deletion", "progress"]);
}

#[tokio::test(start_paused = true)]
async fn a_reminder_does_not_cut_a_back_off_short_and_an_add_does() {
    let queue = queue();
    queue.retry("a");
    remind(&queue, "a");
    assert!(is_idle(&queue).await);
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.done(&"a");
    remind(&queue, "a");
    assert_eq!(queue.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_reminder_may_be_urgent_and_still_waits_for_the_back_off() {
    /// What came to the key before it was reminded of.
    enum Before {
        Added,
        WorkedOn,
        BackingOff,
    }
    for before in [Before::Added, Before::WorkedOn, Before::BackingOff] {
        let queue = queue();
        let urgently = |key| queue.remind(Source::named("deletions"), Urgency::Urgent, key);
        queue.add("first");
        match before {
            Before::Added => {
                queue.add("deletion");
                urgently("deletion");
            }
            Before::WorkedOn | Before::BackingOff => {
                queue.add_from(Source::named("other"), Urgency::Normal, "deletion");
                assert_eq!([queue.next().await, queue.next().await], ["first", "deletion"]);
                if matches!(before, Before::WorkedOn) {
                    urgently("deletion");
                }
                queue.retry("deletion");
                queue.done(&"deletion");
                queue.done(&"first");
                if matches!(before, Before::BackingOff) {
                    urgently("deletion");
                }
                assert!(is_idle(&queue).await, "the back-off holds");
                tokio::time::advance(Duration::from_secs(2)).await;
                queue.add("first");
            }
        }
        assert_eq!([queue.next().await, queue.next().await], ["deletion", "first"]);
        assert!(is_idle(&queue).await);
    }
}

#[tokio::test(start_paused = true)]
async fn nor_does_one_that_came_while_the_key_was_worked_on() {
    for (and_added, waits) in [(false, true), (true, false)] {
        let queue = queue();
        queue.add("a");
        let key = queue.next().await;
        remind(&queue, "a");
        if and_added {
            queue.add("a");
        }
        queue.retry("a");
        queue.done(&key);
        assert_eq!(is_idle(&queue).await, waits, "and added: {and_added}");
    }
    let queue = queue();
    queue.add("a");
    let key = queue.next().await;
    remind(&queue, "a");
    queue.done(&key);
    assert!(!is_idle(&queue).await, "without a failure it counts");
}

#[tokio::test(start_paused = true)]
async fn two_workers_share_the_keys() {
    let queue = queue();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add("a");
    queue.add("b");
    let mut keys = Vec::new();
    for worker in workers {
        keys.push(worker.await.unwrap());
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
}
