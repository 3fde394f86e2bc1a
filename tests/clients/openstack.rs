//! The clients of `OpenStack` without Keystone: openstacksdk, and the command line of python-openstackclient.

use super::run_script;

#[test]
fn openstacksdk_posts_lists_and_works_by_claims() {
    run_script("sdk.py");
}

#[test]
fn openstack_messaging_looks_after_queues_and_messages() {
    run_script("command_line.py");
}
