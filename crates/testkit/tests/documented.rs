//! docs/testing.md lists every scenario.

use jobferry_testkit::{for_each_disturbance, for_each_long_disturbance, for_each_long_scenario, for_each_scenario};

#[test]
fn every_scenario_is_in_the_table() {
    let page = include_str!("../../../docs/testing.md");
    let mut missing = Vec::new();
    macro_rules! listed {
        ($scenario:ident) => {
            if !page.contains(concat!("| `", stringify!($scenario), "` |")) {
                missing.push(stringify!($scenario));
            }
        };
    }
    for_each_scenario!(listed);
    for_each_long_scenario!(listed);
    for_each_disturbance!(listed);
    for_each_long_disturbance!(listed);
    assert_eq!(missing, [""; 0]);
}
