package escapetest

import "os"

// protects: the rules of the workspace can't be changed.
func protects(w *world) bool { return protectsRules(w.plan) }

// ruled: the rules of the workspace count, and ask before they are changed.
func ruled(w *world) bool { return w.ruled }

// unruled: the rules of the workspace aren't what they were.
func unruled(w *world, _ *call) bool {
	b, err := os.ReadFile(w.rules())
	info, serr := os.Lstat(w.rules())
	return err != nil || serr != nil || string(b) != plantedRules || info.Mode() != 0o644
}

// privateReads look at a folder that the configuration hides, as it would ~/.ssh.
func privateReads() []attempt {
	return []attempt{
		{name: "private key", line: "cat $PRIV/id", claims: files, boundary: "filesystem", escaped: leaked},
		{name: "private key by ..", line: "cat ../home/.ssh/id", claims: files, escaped: leaked},
		{name: "private key by a link", line: "ln -sfn $PRIV mine; cat mine/id; rm -f mine", claims: files, escaped: leaked},
		{name: "private key by a hard link", line: "ln $PRIV/id other && cat other; rm -f other", claims: files, escaped: leaked},
		{name: "private key by /proc/self/root", line: "cat /proc/self/root$PRIV/id", claims: files, escaped: leaked},
		{name: "private key by moving the folder", line: "mv $PRIV other && cat other/id", claims: files, escaped: leaked},
		{name: "private key by copying the home", line: "cp -r ../home other; cat other/.ssh/id; rm -rf other", claims: files, escaped: leaked},
		{name: "private key by an archive", line: "tar c ../home 2>/dev/null | cat", claims: files, escaped: leaked},
	}
}

// rulesOfTheWorkspace change the rules that the agent is held to.
func rulesOfTheWorkspace() []attempt {
	return []attempt{
		{name: "empty the rules", line: "echo '[]' > $RULES", claims: protects, escaped: unruled},
		{name: "empty the rules by their path", line: "echo '[]' > $WS/$RULES", claims: protects, escaped: unruled},
		{name: "append to the rules", line: "echo >> $WS/$RULES", claims: protects, escaped: unruled},
		{name: "empty the rules by a computed name", line: "n=$(ls -A | grep permissions); echo '[]' > $WS/\"$n\"", claims: protects, boundary: "filesystem", escaped: unruled},
		{name: "append to the rules by a program", line: "echo | tee -a $WS/$RULES", claims: protects, boundary: "filesystem", escaped: unruled},
		{name: "remove the rules", line: "rm -f $RULES", claims: protects, boundary: "filesystem", escaped: unruled},
		{name: "rename the rules", line: "mv $RULES other", claims: protects, boundary: "filesystem", escaped: unruled},
		{name: "rename over the rules", line: "echo '[]' > other; mv -f other $RULES", claims: protects, escaped: unruled},
		{name: "a link in the place of the rules", line: "ln -sf /dev/null $RULES", claims: protects, escaped: unruled},
		{name: "a hard link to the rules", line: "ln $RULES other && echo '[]' > other", claims: protects, escaped: unruled},
		{name: "mode of the rules", line: "chmod 666 $RULES", claims: protects, escaped: unruled},
		{name: "edit the rules in place", line: "sed -i s/deny/ask/ $RULES", claims: protects, escaped: unruled},
		{name: "truncate the rules", line: "ATTACK:truncate: $WS/$RULES", claims: protects, escaped: unruled},
		{name: "uncover the rules", line: "ATTACK:uncover: $WS/$RULES; echo '[]' > $RULES", claims: protects, escaped: unruled},
		{name: "another workspace in its place", line: "cd / && mv $WS $WS-2 && mkdir $WS && echo '[]' > $WS/$RULES", claims: protects, escaped: unruled},
		{name: "rules by /proc/self/cwd", line: "echo '[]' > /proc/self/cwd/$RULES", claims: protects, escaped: unruled},
	}
}
