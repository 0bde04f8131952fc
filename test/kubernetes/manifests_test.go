// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// strict decodes as a server of Kubernetes does that validates fields strictly: names of fields count with their case.
func strict(text []byte, into any) error {
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(document, into)
	return errors.Join(append(unknown, err)...)
}

// decode decodes a manifest of a pod or a job strictly, and returns its pod.
func decode(text []byte) (core.PodSpec, error) {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return core.PodSpec{}, err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Pod":
		var pod core.Pod
		err := strict(text, &pod)
		return pod.Spec, err
	case "batch/v1 Job":
		var job batch.Job
		err := strict(text, &job)
		return job.Spec.Template.Spec, err
	}
	return core.PodSpec{}, fmt.Errorf("a %s of %s is not known here", kind.Kind, kind.APIVersion)
}

func manifests(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../docs/examples/kubernetes/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	texts := map[string][]byte{}
	for _, file := range files {
		if texts[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// Each field of the manifests is one of Kubernetes. All containers have the same image and mount a volume of the pod at
// /dev/shm, by which they are on one fabric, and none has a right that it does not need.
func TestManifests(t *testing.T) {
	for name, text := range manifests(t) {
		pod, err := decode(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
		}
		if len(pod.Containers) == 0 || pod.RestartPolicy != core.RestartPolicyNever {
			t.Errorf("%s: %d containers, restart policy %q", name, len(pod.Containers), pod.RestartPolicy)
		}
		if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
			t.Errorf("%s may run as root", name)
		}
		for _, c := range pod.Containers {
			if c.Image != "ddlemu:latest" || len(c.Command) == 0 {
				t.Errorf("%s: container %s has the image %q, command %q", name, c.Name, c.Image, c.Command)
			}
			if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/dev/shm" || !volumes[c.VolumeMounts[0].Name] {
				t.Errorf("%s: container %s mounts %v", name, c.Name, c.VolumeMounts)
			}
			s := c.SecurityContext
			if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil ||
				len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
				t.Errorf("%s: container %s has rights that it does not need", name, c.Name)
			}
		}
	}
}

// The pods of the job run on the same machine: they select each other, by labels that they have.
func TestPodsOfTheJobAreTogether(t *testing.T) {
	var job batch.Job
	if err := strict(manifests(t)["two-pods.yaml"], &job); err != nil {
		t.Fatal(err)
	}
	terms := job.Spec.Template.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].TopologyKey != core.LabelHostname {
		t.Fatalf("the affinity is %v", terms)
	}
	for key, value := range terms[0].LabelSelector.MatchLabels {
		if job.Spec.Template.Labels[key] != value {
			t.Errorf("the pods do not have the label %s=%s", key, value)
		}
	}
	if *job.Spec.CompletionMode != batch.IndexedCompletion || *job.Spec.Completions != *job.Spec.Parallelism {
		t.Errorf("the job does not run all its nodes at once: %+v", job.Spec)
	}
}

// A field that Kubernetes does not have is refused.
func TestDecodingIsStrict(t *testing.T) {
	for name, text := range manifests(t) {
		for right, wrong := range map[string]string{"restartPolicy:": "restartpolicy:", "mountPath:": "path:",
			"volumes:": "volume:"} {
			if _, err := decode([]byte(strings.Replace(string(text), right, wrong, 1))); err == nil {
				t.Errorf("%s is decoded with %s instead of %s", name, wrong, right)
			}
		}
	}
}
