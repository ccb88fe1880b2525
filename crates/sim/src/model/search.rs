//! Breadth-first through every state that can be reached.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Broken;
use super::book::Book;
use super::flaw::Flaw;
use super::steps::{Rules, Step};
use super::world::{Budget, World};

/// What a search came to.
#[derive(Debug)]
pub struct Report {
    /// Different states.
    pub states: usize,
    /// Steps from the beginning to the furthest of them.
    pub depth: usize,
    /// Whether all states were looked at, or only as many as were allowed.
    pub complete: bool,
    /// The first broken promise, by the shortest way there.
    pub counterexample: Option<Counterexample>,
}

/// A way to a broken promise.
#[derive(Debug)]
pub struct Counterexample {
    /// The promise.
    pub promise: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// What happened, in order.
    pub steps: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} after {} steps: {}", self.promise, self.steps.len(), self.what)?;
        self.steps.iter().enumerate().try_for_each(|(at, step)| writeln!(f, "  {:>3}. {step}", at + 1))
    }
}

/// The graph of what was found: states by number, in the order in which they were found.
#[derive(Default)]
struct Graph {
    numbers: HashMap<u64, u32>,
    /// From which state, by which of its moves, each was found first.
    found_by: Vec<(u32, u16)>,
    /// Moves that need nothing to go wrong, from and to.
    free: Vec<(u32, u32)>,
    good_ends: Vec<u32>,
}

/// Looks at every state that can be reached within the budget, at most `limit`.
pub fn explore(budget: Budget, flaw: Option<Flaw>, limit: usize) -> Report {
    let mut rules = Rules { book: Book::new(budget.leased), flaw };
    let mut graph = Graph::default();
    let (first, _) = World::new(budget).in_normal_form(&rules.book, flaw);
    graph.number_of(&first, (0, 0));
    let mut frontier = vec![(0_u32, first)];
    let (mut depth, mut complete) = (0, true);
    while !frontier.is_empty() {
        let mut found = Vec::new();
        for (number, world) in frontier {
            if world.is_good_end(&rules.book) {
                graph.good_ends.push(number);
            }
            for (at, step) in rules.moves(&world).into_iter().enumerate() {
                let way = (number, u16::try_from(at).unwrap_or(u16::MAX));
                let next = match step.next {
                    Ok(next) => next.in_normal_form(&rules.book, flaw).0,
                    Err(broken) => {
                        let counterexample = Some(graph.story(budget, &mut rules, way, broken));
                        return Report { states: graph.found_by.len(), depth, complete: false, counterexample };
                    }
                };
                let (to, is_new) = graph.number_of(&next, way);
                if !step.is_fault {
                    graph.free.push((number, to));
                }
                if is_new {
                    found.push((to, next));
                }
            }
        }
        frontier = found;
        depth += usize::from(!frontier.is_empty());
        if graph.found_by.len() > limit {
            complete = false;
            break;
        }
    }
    let dead = complete.then(|| graph.dead_end()).flatten();
    let counterexample = dead.map(|dead| {
        let broken = Broken::new("no-dead-end", "from here nothing good can come any more");
        graph.story(budget, &mut rules, graph.found_by[dead as usize], broken)
    });
    Report { states: graph.found_by.len(), depth, complete, counterexample }
}

impl Graph {
    fn number_of(&mut self, world: &World, way: (u32, u16)) -> (u32, bool) {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        match self.numbers.entry(hasher.finish()) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => {
                let number = u32::try_from(self.found_by.len()).unwrap_or(u32::MAX);
                new.insert(number);
                self.found_by.push(way);
                (number, true)
            }
        }
    }

    /// The first state from which no good end can be reached without luck.
    fn dead_end(&self) -> Option<u32> {
        let mut backwards: Vec<(u32, u32)> = self.free.iter().map(|(from, to)| (*to, *from)).collect();
        backwards.sort_unstable();
        let mut hopeful = vec![false; self.found_by.len()];
        let mut waiting = self.good_ends.clone();
        for end in &waiting {
            hopeful[*end as usize] = true;
        }
        while let Some(to) = waiting.pop() {
            let first = backwards.partition_point(|(target, _)| *target < to);
            for (_, from) in backwards[first..].iter().take_while(|(target, _)| *target == to) {
                if !std::mem::replace(&mut hopeful[*from as usize], true) {
                    waiting.push(*from);
                }
            }
        }
        hopeful.iter().position(|hopeful| !hopeful).and_then(|at| u32::try_from(at).ok())
    }

    /// Goes the way again, to tell it.
    fn story(&self, budget: Budget, rules: &mut Rules, last: (u32, u16), broken: Broken) -> Counterexample {
        let mut way = vec![last.1];
        let mut at = last.0;
        while at != 0 {
            let (from, number) = self.found_by[at as usize];
            way.push(number);
            at = from;
        }
        let (mut world, mut changed_places) = (World::new(budget).in_normal_form(&rules.book, rules.flaw).0, false);
        let mut steps = Vec::new();
        for number in way.into_iter().rev() {
            let Some(step) = rules.moves(&world).into_iter().nth(usize::from(number)) else { break };
            steps.push(step.step.told(changed_places).to_string());
            if let Ok(next) = step.next {
                let (next, swapped) = next.in_normal_form(&rules.book, rules.flaw);
                world = next;
                changed_places ^= swapped;
            }
        }
        Counterexample { promise: broken.promise, what: broken.what, steps }
    }
}

impl Step {
    /// The same step, if the dispatchers have changed places since the beginning.
    fn told(self, changed_places: bool) -> Self {
        if !changed_places {
            return self;
        }
        match self {
            Self::Send(flight) => Self::Send(flight.of_the_other()),
            Self::CarryOut(flight) => Self::CarryOut(flight.of_the_other()),
            Self::Refuse(flight) => Self::Refuse(flight.of_the_other()),
            Self::Hear(flight) => Self::Hear(flight.of_the_other()),
            Self::Break(flight) => Self::Break(flight.of_the_other()),
            Self::WatchManager(mind) => Self::WatchManager(1 - mind),
            Self::WatchWorker(mind, worker, relist) => Self::WatchWorker(1 - mind, worker, relist),
            Self::Crash(mind) => Self::Crash(1 - mind),
            Self::Cut(mind, worker) => Self::Cut(1 - mind, worker),
            other => other,
        }
    }
}
